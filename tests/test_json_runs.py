"""What the commands that write or compare print with --json, in all states that they can meet.

Each document is printed by the command itself and fits its schema, which is closed: a field that a
command has and its schema has not fails here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reput.formats.rocketmq import names
from reput.streaming.cli.inspect.group import COMMANDS as INSPECTIONS
from reput.streaming.cli.main import COMMANDS as TOP
from reput.streaming.cli.main import main
from reput.streaming.cli.query.group import COMMANDS as QUERIES
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.endings.failures import FAILURES, Failures
from tests.builders.stores import LOG_FILE, SMALL, Log, config_of, fill
from tests.json_schema import fits

ROOT = Path(__file__).parent.parent


class Place:
    """A store of 80 records with an output, and the command on both of them.

    Attributes:
        log: in memory.
        options: that name store and output.
    """

    def __init__(self, root: Path, monkeypatch, capsys) -> None:
        self.root = root
        self.log = fill(Log(), 5, 80)
        self.store = self.log.write(root / "store")
        self.output = root / "out"
        conf = root / "broker.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in SMALL.items()))
        self.options = ["--store", self.store, "--output", self.output, "--broker-conf", conf]
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def dispatch(self, end: int | None = None, *, closes: bool = True, **options) -> None:
        dispatcher = StoreDispatcher(config_of(self.store, self.output), **options)
        dispatcher.dispatch(self.log.end if end is None else end)
        if closes:
            dispatcher.close()
        else:
            dispatcher.abandon()

    def damage_log(self) -> None:
        """Spoil the magic code of a record in the log's second file; the second time, restore it."""
        position = [each.position for each in self.log.places if each.position > LOG_FILE][2]
        assert position < 2 * LOG_FILE
        self.spoil(
            self.store / names.COMMITLOG / names.offset_file(LOG_FILE), position % LOG_FILE + 4
        )

    def damage_output(self) -> None:
        queues = sorted((self.output / names.CONSUMEQUEUE).rglob("0*"))
        self.spoil(next(path for path in queues if path.is_file()), 19)

    def spoil(self, path: Path, at: int) -> None:
        raw = bytearray(path.read_bytes())
        raw[at] ^= 0xFF
        path.write_bytes(raw)

    def say(self, *words, options=None):
        """Run a command; return exit code and document."""
        options = self.options if options is None else options
        for name, value in vars(Failures()).items():
            self._monkeypatch.setattr(FAILURES, name, value)
        line = ["reput", *map(str, (*words, *options)), "--json"]
        self._monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit) as ended:
            main()
        [document] = map(json.loads, self._capsys.readouterr().out.splitlines())
        return ended.value.code, document


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    return Place(tmp_path, monkeypatch, capsys)


def nothing(_place):
    """There is no output."""


def whole(place):
    place.dispatch()


def short(place):
    place.dispatch(place.log.places[40].position)


def empty(place):
    place.dispatch(0)


def killed(place):
    place.dispatch(closes=False)


def spoiled(place):
    place.dispatch()
    place.damage_output()


def spoiled_everywhere(place):
    """More findings than are kept."""
    fill(place.log, 6, 3000)
    place.log.write(place.store)
    place.dispatch()
    for path in (place.output / names.CONSUMEQUEUE).rglob("0*"):
        if path.is_file():
            raw = bytearray(path.read_bytes())
            for at in range(0, len(raw) - 19, 40):
                raw[at + 19] ^= 1
            path.write_bytes(raw)


def skipped(place):
    place.damage_log()
    place.dispatch(skips_corrupt=True)


def log_spoiled_since(place):
    place.dispatch()
    place.damage_log()


def healed(place):
    """What was passed over can be read now."""
    skipped(place)
    place.damage_log()


def abort_left(place):
    place.dispatch()
    (place.store / names.ABORT).touch()


def no_record(place):
    place.dispatch()
    (place.output / names.STATE / names.PROGRESS).unlink()


def record_damaged(place):
    place.dispatch()
    place.spoil(place.output / names.STATE / names.PROGRESS, 30)


def no_log(place):
    for path in (place.store / names.COMMITLOG).iterdir():
        path.unlink()


def cut_short(place):
    """The log cannot be read beyond what was dispatched."""
    place.damage_log()
    place.dispatch(LOG_FILE)


# What the three commands come to, by state; "error" is a document of its own.
ENDS = {
    nothing: ("error", "error", "error"),
    whole: ("sound", "sound", "sound"),
    short: ("incomplete", "incomplete", "sound"),
    empty: ("incomplete", "incomplete", "sound"),
    killed: ("incomplete", "incomplete", "sound"),
    spoiled: ("damaged", "damaged", "sound"),
    spoiled_everywhere: ("damaged", "damaged", "sound"),
    skipped: ("skipped", "incomplete", "skipped"),
    log_spoiled_since: ("incomplete", "incomplete", "error"),
    cut_short: ("incomplete", "incomplete", "incomplete"),
    healed: ("incomplete", "incomplete", "sound"),
    abort_left: ("sound", "damaged", "sound"),
    no_record: ("damaged", "error", "sound"),
    record_damaged: ("damaged", "error", "sound"),
    no_log: ("error", "error", "error"),
}
CODES = {"sound": 0, "damaged": 1, "skipped": 4, "incomplete": 4, "error": 3}
COMMANDS = ("verify", "handover", "repair")


@pytest.mark.parametrize("state", ENDS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("command", COMMANDS)
def test_documents_of_each_state(place, state, command):
    """
    For an output that is right, short, damaged, left by a killed writer, or not there.
    """
    end = ENDS[state][COMMANDS.index(command)]
    state(place)
    code, document = place.say(*(["rebuild", "--repair"] if command == "repair" else [command]))

    assert fits(document, "error" if end == "error" else command)
    if end != "error":
        [*stores] = document.get("stores", [document])
        assert [each["verdict"] for each in stores] == [end]
        failed = any(each.get("failure") for each in stores)
        assert failed == (state is cut_short and command == "repair")
        if command == "verify":
            assert document["truncated"] == (state is spoiled_everywhere)
    # At damage of the log a repair is incomplete, as a rebuild is.
    assert code == CODES[end]


def test_verify_names_who_writes(place):
    """
    The field is there in any case, and null without a writer.
    """
    dispatcher = StoreDispatcher(config_of(place.store, place.output))
    dispatcher.dispatch(place.log.places[40].position)
    _, while_it_writes = place.say("verify")
    dispatcher.close()
    _, afterwards = place.say("verify")

    assert fits(while_it_writes, "verify")
    assert fits(afterwards, "verify")
    assert "process" in while_it_writes["writer"]
    assert afterwards["writer"] is None


@pytest.mark.parametrize("state", [whole, cut_short, nothing], ids=lambda each: each.__name__)
def test_several_stores_are_repaired(place, state, tmp_path):
    """
    One document has them all; where one cannot be repaired, there is that of the error.
    """
    state(place)
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other", None, None)
    spoiled(other)
    tables = [
        f'[[store]]\nname = "{name}"\npath = "{each.store}"\noutput = "{each.output}"\n'
        f'broker_conf = "{tmp_path / "broker.conf"}"\n'
        for name, each in (("b", other), ("a", place))
    ]
    (tmp_path / "reput.toml").write_text("\n".join(tables))
    code, document = place.say(
        "rebuild", "--repair", "--config", tmp_path / "reput.toml", options=[]
    )

    if state is nothing:
        assert code == 3
        assert fits(document, "error")
        return
    assert fits(document, "repair")
    assert [store["name"] for store in document["stores"]] == ["b", "a"]
    assert code == (4 if state is cut_short else 0)


def commands():
    """Return the words of each command that takes --json."""
    groups = (("", TOP), ("query ", QUERIES), ("inspect ", INSPECTIONS))
    words = {f"{prefix}{name}" for prefix, names in groups for name in names}
    return sorted(words - {"prepare", "query", "inspect"})


@pytest.mark.parametrize("command", commands())
def test_an_unknown_option_is_answered_with_a_document(place, command):
    """
    By each command, as any error is.
    """
    code, document = place.say(*command.split(), "--no-such-option")

    assert code == 2
    assert fits(document, "error")
    assert document["exit_code"] == 2


@pytest.mark.spark
@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_rebuilds(tmp_path, placement):
    """
    Several stores, one of which has a place that is passed over; then once more, stopping there.
    """
    tables = []
    for name in ("right", "damaged"):
        (tmp_path / name).mkdir()
        each = Place(tmp_path / name, None, None)
        if name == "damaged":
            each.damage_log()
        tables.append(
            f'[[store]]\nname = "{name}"\npath = "{each.store}"\noutput = "{each.output}"\n'
            f'broker_conf = "{each.root / "broker.conf"}"\n'
        )
    (tmp_path / "reput.toml").write_text("\n".join(tables))
    line = [sys.executable, "-m", "reput", "rebuild", "--config", tmp_path / "reput.toml"]
    line += ["--placement", placement, "--json"]

    stopped = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert stopped.returncode == 4, stopped.stderr
    assert fits(json.loads(stopped.stdout), "error")

    passing = [*line, "--on-corrupt", "skip"]
    passed = subprocess.run(passing, cwd=ROOT, capture_output=True, text=True, check=False)
    assert passed.returncode == 0, passed.stderr
    document = json.loads(passed.stdout)
    assert fits(document, "run")
    assert ("writer_cpu_seconds" in document) == (placement == "executors")
    assert document["complete"]
    assert [bool(store["events"]) for store in document["stores"]] == [False, True]
