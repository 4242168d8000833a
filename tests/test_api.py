"""The public names of `reput`: few, typed, and loaded only when they are used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import reput
from reput.checkpoints import progress

ROOT = Path(__file__).parent.parent


@pytest.fixture
def store(golden, tmp_path):
    """Return the input of a store that a real broker wrote, without its own queues."""
    found = golden("5.3.3", "basic")
    return replace(found, path=found.copy_input(tmp_path / "store"))


def imported_by(statement: str) -> set[str]:
    script = f"import sys; {statement}; print(*sys.modules)"
    line = [sys.executable, "-c", script]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_name_is_there():
    """
    What `__all__` promises can be imported, and is listed by the package's docstring.
    """
    for name in reput.__all__:
        assert getattr(reput, name)
        assert name in reput.__doc__ or name == "__version__"


def test_the_manuals_programs_use_public_names():
    """
    Pages and examples import nothing of `reput` that may change from release to release.
    """
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("examples/*")]
    found = [
        line
        for page in pages
        for line in re.findall(r"^(?:from|import) reput\b.*", page.read_text("utf-8"), re.MULTILINE)
    ]

    assert found
    for line in found:
        names = re.fullmatch(r"from reput import ([\w, ]+)", line)
        assert names, line
        assert set(names[1].split(", ")) <= set(reput.__all__), line


def test_the_command_takes_signals_before_it_loads_what_is_slow():
    """
    A signal before that ends it as Python does: Ctrl-C with a traceback.
    """
    loaded = imported_by("import reput.streaming.cli.command")

    assert not loaded & {"importlib.metadata", "email", "typer", "numpy", "logging"}


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="nothing_such"):
        reput.nothing_such  # noqa: B018


@pytest.mark.parametrize(
    "statement", ["import reput", "from reput import MessageStore, compile_filter, settings_of"]
)
def test_readers_load_neither_spark_nor_a_compiler(statement):
    """
    A script that asks for one message does not wait for a JVM's client or for LLVM.
    """
    assert not imported_by(statement) & {"pyspark", "py4j", "numba", "llvmlite", "kafka", "typer"}


@pytest.mark.parametrize("room", ["streaming/source", "streaming/cli/query"])
def test_readers_load_nothing_that_writes(room):
    """
    Code that only reads a store cannot change it: what does is not even loaded.
    """
    modules = [
        "reput." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / room).rglob("*.py")
    ]
    loaded = imported_by(f"import {', '.join(modules)}")

    writers = ("reput.checkpoints.disk", "reput.sinks.files", "reput.sinks.upkeep")
    assert set(modules) <= loaded
    assert not [name for name in loaded if name.startswith(writers)]


def test_rebuild_and_verify(store, tmp_path):
    """
    The two lines of a script: write an output, and compare it.
    """
    conf = store.conf
    done = reput.rebuild(store.path, tmp_path / "out", broker_version="5.3.3", broker_conf=conf)
    found = reput.verify(store.path, tmp_path / "out", broker_version="5.3.3", broker_conf=conf)

    assert done.messages > 0
    assert done.is_complete
    assert (found.ok, found.verdict, found.exit_code) == (True, "sound", 0)
    assert found.messages == done.messages


def test_what_verify_finds(store, tmp_path):
    """
    A report that is not ok, where an entry is not what the log gives.
    """
    conf = store.conf
    reput.rebuild(store.path, tmp_path / "out", broker_version="5.3.3", broker_conf=conf)
    queue = next((tmp_path / "out" / "consumequeue").rglob("00000000000000000000"))
    with queue.open("r+b") as file:
        file.write(b"\x01")

    found = reput.verify(store.path, tmp_path / "out", broker_version="5.3.3", broker_conf=conf)

    assert (found.ok, found.verdict, found.exit_code) == (False, "damaged", 1)
    assert found.findings[0].path == str(queue)


def bare_log(store: Path) -> list[Path]:
    return sorted((store / "commitlog").iterdir())


def make_hole(store: Path) -> None:
    """Zero some of the last file, with records after it."""
    with bare_log(store)[-1].open("r+b") as file:
        file.seek(2000)
        file.write(bytes(4000))


def harm_record(store: Path) -> None:
    """Overwrite size and magic of a record in the second file."""
    raw = bare_log(store)[1].read_bytes()
    place = 0
    while place < 60_000:
        place += int.from_bytes(raw[place : place + 4], "big")
    with bare_log(store)[1].open("r+b") as file:
        file.seek(place)
        file.write(b"\xee" * 12)


def lose_file(store: Path) -> None:
    bare_log(store)[2].unlink()


def cut_file(store: Path) -> None:
    os.truncate(bare_log(store)[2], 500)


HARMS = {"magic": harm_record, "hole": make_hole, "missing": lose_file, "cut": cut_file}
CASES = ["half of the log", "file lost later", *HARMS, "skip"]


def prepare(case: str, store, output: Path) -> None:
    """Make an output that does not have all of its log."""
    given = {"broker_version": "5.3.3", "broker_conf": store.conf}
    if case == "half of the log":
        later = [(path, path.read_bytes()) for path in bare_log(store.path)[3:]]
        for path, _ in later:
            path.unlink()
        reput.rebuild(store.path, output, **given)
        for path, raw in later:
            path.write_bytes(raw)
    elif case == "file lost later":
        reput.rebuild(store.path, output, **given)
        lose_file(store.path)
    elif case == "skip":
        harm_record(store.path)
        done = reput.rebuild(store.path, output, **given, on_corrupt="skip")
        assert (done.skipped, done.is_complete) == (1, True)
    else:
        HARMS[case](store.path)
        with pytest.raises(reput.FormatError):
            reput.rebuild(store.path, output, **given)


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_the_commands(store, tmp_path, case):
    """
    `ok` is never true where the command says that something is missing or was passed over.
    """
    output, conf = tmp_path / "out", tmp_path / "broker.conf"
    prepare(case, store, output)
    conf.write_text("".join(f"{name}={value}\n" for name, value in store.conf.items()))
    found = reput.verify(store.path, output, broker_version="5.3.3", broker_conf=conf)
    line = [sys.executable, "-m", "reput", "verify", "--json", "--broker-version", "5.3.3"]
    line += ["--store", store.path, "--output", output, "--broker-conf", conf]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    said = json.loads(done.stdout)

    assert not found.ok
    assert found.verdict == ("skipped" if case == "skip" else "incomplete")
    assert (found.verdict, found.exit_code) == (said["verdict"], done.returncode)
    assert [each.detail for each in found.lacks] == [each["detail"] for each in said["lacks"]]
    assert found.lacking == said["lacking"] > 0


@pytest.mark.parametrize("case", HARMS)
def test_what_is_before_damage_is_dispatched(store, tmp_path, case):
    """
    As the command does. The error says how much that is and names the argument that passes over
    the place, which is then taken.
    """
    output = tmp_path / "out"
    given = {"broker_version": "5.3.3", "broker_conf": store.conf}
    HARMS[case](store.path)
    with pytest.raises(reput.FormatError) as raised:
        reput.rebuild(store.path, output, **given)
    known = progress.load(output)

    assert known.messages > 0
    assert f"{known.messages} messages, up to physical offset {known.end}, are" in str(raised.value)
    assert 'on_corrupt="skip"' in str(raised.value)
    assert "--" not in str(raised.value)

    done = reput.rebuild(store.path, output, **given, on_corrupt="skip")

    assert (done.start, done.is_complete) == (known.end, True)
    assert done.skipped > 0
    assert done.messages > 0


def test_what_people_write_first(store, tmp_path):
    """
    Paths as text, and numbers and switches as Python has them.
    """
    conf = {name: int(value) if value.isdigit() else value for name, value in store.conf.items()}
    given = {"broker_version": "5.3.3", "broker_conf": conf | {"messageIndexEnable": True}}
    path, output = str(store.path), str(tmp_path / "out")

    assert reput.rebuild(path, output, **given).is_complete
    assert reput.verify(path, output, **given).ok
    settings = reput.settings_of("5.3.3", conf)
    with reput.MessageStore.open(path, output, settings) as opened:
        assert opened.topics()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"store": None}, "store must be a path"),
        ({"store": b"/store"}, "store must be a path"),
        ({"output": ""}, "output must be a path"),
        ({"output": 7}, "output must be a path"),
        ({"broker_version": 5.3}, "broker_version must be text"),
        ({"broker_version": "5.3", "broker_conf": {"maxIndexNum": 2.5}}, "maxIndexNum=2.5 is"),
        ({"broker_version": "5.3", "broker_conf": 7}, "broker_conf must be a path"),
        ({"on_corrupt": "ignore"}, "on_corrupt must be"),
    ],
)
def test_wrong_types_are_refused(tmp_path, wrong, said):
    """
    By the name of the argument, and not from deep inside.
    """
    given = {"store": tmp_path, "output": tmp_path / "out", "broker_version": "5.3.3"} | wrong
    with pytest.raises(reput.UsageError, match=f"^{said}"):
        reput.rebuild(**given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ask", [reput.rebuild, reput.verify])
def test_errors_name_arguments(golden, tmp_path, ask):
    """
    What the command's errors name options for is an argument here, and is taken.
    """
    found = golden("5.3.3", "basic")
    other = {"broker_version": "5.3.3", "broker_conf": {}}
    with pytest.raises(reput.FormatError, match="mappedFileSizeCommitLog in broker_conf"):
        ask(found.path, tmp_path / "out", **other)
    output = tmp_path / "out" if ask is reput.rebuild else None
    with pytest.raises(reput.UsageError, match="any_version=True") as raised:
        ask(found.path, output, broker_version="5.5", broker_conf=found.conf)
    assert "--" not in str(raised.value)
    ask(found.path, output, broker_version="5.5", broker_conf=found.conf, any_version=True)


def test_verify_of_a_brokers_own_files(golden, tmp_path):
    """
    Without an output the store's own queues and index are compared.
    """
    found = golden("5.3.3", "basic")
    own = replace(found, path=found.copy(tmp_path / "store"))
    found = reput.verify(own.path, broker_version="5.3.3", broker_conf=own.conf)
    assert found.ok

    queue = next((own.path / "consumequeue").rglob("00000000000000000000"))
    with queue.open("r+b") as file:
        file.write(b"\x01")
    found = reput.verify(own.path, broker_version="5.3.3", broker_conf=own.conf)
    assert not found.ok


def test_the_types_are_for_others_too(tmp_path):
    """
    A checker sees the signatures: `py.typed` is there, and nothing public is Any by accident.
    """
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "import reput\n"
        "store = reput.MessageStore.open(Path('store'))\n"
        "reveal_type(store)\n"
        "reveal_type(reput.verify(Path('s'), Path('o'), broker_version='5.3').ok)\n"
        "reveal_type(reput.rebuild('store', 'o', broker_version='5.3'))\n"
        "reput.rebuild(1, Path('o'), broker_version='5.3')\n"
        "reput.rebuild('store', 'o', broker_version='5.3', on_corrupt='ignore')\n"
    )
    line = [sys.executable, "-m", "mypy", "--config-file", "", "--strict", str(script)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)

    assert 'Revealed type is "reput.stores.query.message_store.MessageStore"' in done.stdout
    assert 'Revealed type is "bool"' in done.stdout or "builtins.bool" in done.stdout
    assert 'Revealed type is "reput.streaming.programs.answers.Dispatched"' in done.stdout
    assert 'Argument 1 to "rebuild" has incompatible type "int"' in done.stdout
    assert 'Argument "on_corrupt" to "rebuild" has incompatible type' in done.stdout
