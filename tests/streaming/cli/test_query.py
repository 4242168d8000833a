"""`reput query`, `topics` and `tail`: what is shown, exit codes, and how little is imported for it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import zlib

import pytest

from reput.formats.rocketmq.encode import Message
from reput.formats.rocketmq.messageid import offset_id
from reput.streaming.cli.main import COMMANDS, main
from reput.streaming.cli.query.group import COMMANDS as QUERIES
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.stores import SMALL, Log, config_of

NOW = 1_700_000_000_000
PAGES = {(): COMMANDS.keys() - {"query", "inspect"}, ("query",): QUERIES.keys()}


class Reput:
    """A small store with its output, and the command that asks it."""

    def __init__(self, directory, monkeypatch, capsys):
        self.directory = directory
        self.store, self.output = directory / "store", directory / "out"
        self.conf = directory / "broker.conf"
        self.conf.write_text("".join(f"{k}={v}\n" for k, v in SMALL.items()))
        self.log = Log()
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def put(self, body=b"", topic="t", queue_offset=0, **fields):
        return self.log.append(Message(topic, body, queue_offset=queue_offset, **fields))

    def dispatch(self):
        config = config_of(self.log.write(self.store), self.output)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(self.log.end)
        dispatcher.close()

    def arguments(self, *words):
        options = ["--store", self.store, "--output", self.output, "--broker-conf", self.conf]
        return [*map(str, words), *map(str, options)]

    def __call__(self, *words):
        """Run it here; return exit code, standard output and standard error."""
        self._monkeypatch.setattr(sys, "argv", ["reput", *self.arguments(*words)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = self._capsys.readouterr()
        return ended.value.code, shown.out, shown.err


@pytest.fixture
def reput(tmp_path, monkeypatch, capsys):
    return Reput(tmp_path, monkeypatch, capsys)


@pytest.fixture
def filled(reput):
    for i in range(4):
        properties = {"KEYS": f"k{i} all", "UNIQ_KEY": f"U{i}", "TAGS": "ab"[i % 2]}
        reput.put(
            f"body {i}".encode(),
            queue_offset=i,
            properties=properties,
            store_timestamp=NOW + 1000 * i,
        )
    reput.dispatch()
    return reput


class TestExitCodes:
    def test_found_not_found_wrong_usage_and_no_index_differ(self, filled):
        assert filled("query", "key", "k1", "--topic", "t")[0] == 0
        assert filled("query", "key", "k9", "--topic", "t")[0] == 1
        assert filled("query", "key", "", "--topic", "t")[0] == 2
        assert filled("query", "key", "k1", "--topic", "t", "--limit", "0")[0] == 2
        assert filled("query", "key", "k1", "k9", "--topic", "t")[0] == 1
        assert filled("query", "key", "k1", "k2", "--topic", "t")[0] == 0
        assert filled("query", "key", "k1", "", "--topic", "t")[0] == 2
        for path in (filled.output / "index").iterdir():
            path.unlink()
        code, shown, _ = filled("query", "key", "k1", "--topic", "t")
        assert code == 4
        assert "no index file is in" in shown
        assert filled("query", "key", "k1", "k2", "--topic", "t") == (code, shown, "")

    @pytest.mark.parametrize(
        "words",
        [
            ("query", "id", "no-id"),
            ("query", "offset", "0"),
            ("query", "offset", "0", "--topic", "t", "--queue", "0", "--tag", "a", "--sql", "b"),
            ("query", "offset", "0", "--topic", "t", "--queue", "0", "--tag", "||"),
            ("query", "offset", "0", "--topic", "t", "--queue", "0", "--sql", "a ="),
            ("query", "time", "yesterday"),
            ("query", "time", "1", "--queue", "0"),
            ("query", "key", "k", "--topic", "t", "--begin", "2", "--end", "1"),
            ("query", "key", "k", "--topic", "t", "--unique", "--tag"),
            ("query", "transactions", "--state", "none"),
            ("query", "nothing"),
        ],
    )
    def test_what_cannot_be_asked_is_wrong_usage(self, filled, words):
        code, _, error = filled(*words)

        assert code == 2
        assert error.startswith("reput: ")

    def test_a_damaged_store_is_a_failure_that_names_the_file(self, filled):
        path = next((filled.store / "commitlog").iterdir())
        path.write_bytes(path.read_bytes()[:100])

        code, _, error = filled("query", "key", "k1", "--topic", "t")

        assert code == 3
        assert str(path) in error

    def test_what_is_odd_is_said_beside_the_answer(self, filled):
        (filled.output / "index" / "notes").write_text("x")

        code, shown, error = filled("query", "key", "k1", "--topic", "t")

        assert code == 0
        assert "body 1" in shown
        assert "notes at byte 0: not the name of an index file" in error


class TestShown:
    def test_by_key(self, filled):
        code, shown, _ = filled("query", "key", "all", "--topic", "t", "--json")
        document = json.loads(shown)

        assert code == 0
        assert [m["body"] for m in document["messages"]] == [f"body {i}" for i in range(4)]
        assert document["index_offsets"] == [p.position for p in reversed(filled.log.places)]
        assert document["messages"][2]["queue_offset"] == 2

    def test_by_several_keys(self, filled):
        code, shown, _ = filled("query", "key", "k2", "none", "all", "--topic", "t")
        lines = shown.splitlines()

        assert code == 1
        assert [line.split() for line in lines[:4]] == [
            ["key", "status", "messages", "other_hits"],
            ["k2", "found", "1", "0"],
            ["none", "not", "found", "0", "0"],
            ["all", "found", "4", "0"],
        ]
        named = [line.split()[1] for line in lines if line.split()[:1] == ["key"]][1:]
        assert named == ["k2", "all", "all", "all", "all"]
        assert [line.split()[-1] for line in lines if " body  " in line] == [
            "2",
            "0",
            "1",
            "2",
            "3",
        ]

    def test_several_keys_as_json_are_what_each_of_them_is(self, filled):
        words = ("--topic", "t", "--json")
        code, shown, _ = filled("query", "key", "k2", "all", *words)
        document = json.loads(shown)

        assert code == 0
        assert (document.pop("notes"), document.pop("notes_total")) == ([], 0)
        for key, answer in zip(("k2", "all"), document["keys"], strict=True):
            alone = json.loads(filled("query", "key", key, *words)[1])
            del alone["notes"], alone["notes_total"]
            assert answer == {"key": key, **alone}

    def test_by_id_with_its_parts(self, filled):
        place = filled.log.places[2].position
        code, shown, _ = filled("query", "id", offset_id("127.0.0.1:10911", place))

        assert code == 0
        assert f"host 127.0.0.1, port 10911, physical_offset {place}" in shown
        assert "found by its offset" in shown
        assert "body 2" in shown

    def test_a_wrong_offset_is_said_to_be_one(self, filled):
        code, shown, _ = filled("query", "id", offset_id("127.0.0.1:10911", 7))

        assert code == 1
        assert "no record begins at physical offset 7" in shown

    def test_by_queue_offset_with_status_and_next(self, filled):
        words = ("query", "offset", "1", "--topic", "t", "--queue", "0", "--limit", "3")
        code, shown, _ = filled(*words, "--tag", "b")

        assert code == 0
        assert shown.startswith("status FOUND, next offset 4, min offset 0, max offset 4\n")
        assert "body 1" in shown
        assert "body 2" not in shown
        assert filled("query", "offset", "9", "--topic", "t", "--queue", "0")[0] == 1

    def test_by_physical_offset(self, filled):
        place = filled.log.places[3].position
        assert "body 3" in filled("query", "offset", place, "--physical")[1]
        assert filled("query", "offset", place + 1, "--physical")[0] == 3

    def test_by_time_in_queues_and_in_the_log(self, filled):
        at = NOW + 1500
        rows = json.loads(filled("query", "time", at, "--topic", "t", "--json")[1])["queues"]
        assert [(r["queue"], r["queue_offset"]) for r in rows] == [(0, 2)]
        words = ("query", "time", at, "--topic", "t", "--boundary", "upper", "--json")
        assert json.loads(filled(*words)[1])["queues"][0]["queue_offset"] == 1

        document = json.loads(filled("query", "time", at, "--json", "--limit", "5")[1])
        assert document["physical_offset"] == filled.log.places[2].position
        assert len(document["messages"]) == 2
        assert filled("query", "time", NOW + 9999)[0] == 1

    def test_by_time_after_a_clock_went_back(self, reput):
        """
        The first record stored then or later; bisection has to be asked for.
        """
        for i in range(30):
            stored = NOW + 1000 * (i if i < 15 else i - 10)
            reput.put(b"x" * 200, store_timestamp=stored)
        reput.dispatch()
        places = reput.log.places
        assert len({place.position // reput.log.file_size for place in places}) > 1
        words = ("query", "time", NOW + 9000, "--json")
        assert json.loads(reput(*words)[1])["physical_offset"] == places[9].position
        for at in range(19):
            words = ("query", "time", NOW + 1000 * at, "--json")
            expected = next(p for p in places if p.message.store_timestamp >= NOW + 1000 * at)
            assert json.loads(reput(*words)[1])["physical_offset"] == expected.position
            code, shown, _ = reput(*words, "--ascending-store-time")
            assert code == 0
            found = json.loads(shown)["messages"][0]
            assert found["stored_ms"] >= NOW + 1000 * at
        assert reput(*words, "--ascending-store-time", "--topic", "t")[0] == 2

    def test_topics_and_their_queues(self, filled):
        assert filled("topics")[1].splitlines()[1].split() == ["t", "simple", "1", "4"]
        row = json.loads(filled("topics", "--topic", "t", "--json")[1])["queues"][0]
        assert (row["min_offset"], row["max_offset"]) == (0, 4)
        assert filled("topics", "--topic", "none")[0] == 1

    @pytest.mark.parametrize("what", ["transactions", "delayed", "timer", "consumers"])
    def test_nothing_waits_in_a_plain_store(self, filled, what):
        code, shown, _ = filled("query", what)

        assert code == 1
        assert shown.startswith("no ")


class TestBodies:
    @pytest.mark.parametrize(
        ("mode", "body", "expected"),
        [
            ("auto", b'{"a": 1}', ("body", '{"a": 1}')),
            ("json", b'{"a": 1}', ("body_json", {"a": 1})),
            ("json", b"{", ("body", "{")),
            ("hex", b"ab", ("body_hex", "6162")),
            ("auto", b"\x00\xff", ("body_hex", "00ff")),
            ("text", b"a\xff", ("body", "a\ufffd")),
            ("auto", "ü".encode() * 3, ("body", "üüü")),
        ],
    )
    def test_modes(self, reput, mode, body, expected):
        reput.put(body, properties={"KEYS": "k"})
        reput.dispatch()
        words = ("query", "key", "k", "--topic", "t", "--body", mode, "--json")

        (message,) = json.loads(reput(*words)[1])["messages"]

        assert message[expected[0]] == expected[1]

    @pytest.mark.parametrize("mode", ["auto", "json", "hex", "none"])
    def test_one_that_is_not_its_senders_is_marked(self, reput, mode):
        """
        However it is shown; in the lines of tail too.
        """
        reput.put(zlib.compress(b"a body" * 9)[:-5], sys_flag=1, properties={"KEYS": "k"})
        reput.dispatch()
        words = ("query", "key", "k", "--topic", "t", "--body", mode, "--json")
        (message,) = json.loads(reput(*words)[1])["messages"]
        assert message["body_problem"].startswith("not decompressed: the compressed bytes end")

        words = ("tail", "--topic", "t", "--from-start", "--limit", "1", "--body", mode)
        assert "[body not decompressed: the compressed bytes end" in reput(*words)[1]

    def test_tail_says_how_much_of_one_is_shown(self, reput):
        reput.put(b"0123456789")
        reput.dispatch()
        words = ("tail", "--topic", "t", "--from-start", "--limit", "1", "--body-bytes", "4")
        assert reput(*words)[1].endswith(" 0123 [4 of 10 bytes shown]\n")

    def test_what_would_steer_a_terminal_is_harmless(self, reput):
        """
        In bodies, properties, topics and names of files; as text, JSON and in errors.
        """
        evil = "\x1b]0;owned\x07\x9b2J\u202ereversed\r\n\x00"
        raw = evil.encode()
        reput.put(raw, topic="t\x1b[31m", properties={"KEYS": "k", "p\x1b[1m": evil})
        reput.dispatch()
        (reput.output / "index" / "x\x1b[2J").write_text("")
        for words in (
            ("query", "key", "k", "--topic", "t\x1b[31m"),
            ("query", "key", "k", "--topic", "t\x1b[31m", "--body", "text"),
            ("query", "key", "k", "--topic", "t\x1b[31m", "--json"),
            ("query", "time", "0"),
            ("query", "key", "\x1b[5m", "--topic", "\x1b[5m"),
            ("query", "id", "\x1b[5m"),
            ("topics",),
            ("topics", "--json"),
            ("tail", "--topic", "t\x1b[31m", "--from-start", "--seconds", "0"),
            ("tail", "--topic", "t\x1b[31m", "--from-start", "--seconds", "0", "--json"),
        ):
            _, shown, error = reput(*words)
            for text in (shown, error):
                assert all(c.isprintable() or c == "\n" for c in text), words


class TestTail:
    def test_messages_are_shown_as_they_come(self, filled):
        """
        While the job dispatches: what matches, each once and in order, until the limit.
        """
        ended = threading.Event()

        def write():
            number = 4
            while not ended.wait(0.02):
                tag = {"TAGS": "ab"[number % 2]}
                filled.put(f"body {number}".encode(), queue_offset=number, properties=tag)
                filled.dispatch()
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        words = ("tail", "--topic", "t", "--tag", "a", "--limit", "3", "--seconds", "60", "--json")
        try:
            code, shown, _ = filled(*words)
        finally:
            ended.set()
            writer.join()

        assert code == 0
        numbers = [int(json.loads(line)["body"].split()[1]) for line in shown.splitlines()]
        assert numbers[0] % 2 == 0
        assert numbers == [numbers[0], numbers[0] + 2, numbers[0] + 4]

    def test_from_the_start_with_a_filter(self, filled):
        words = ("tail", "--topic", "t", "--from-start", "--seconds", "0", "--sql", "TAGS = 'b'")

        lines = filled(*words)[1].splitlines()

        assert [line.partition(" 0:")[2] for line in lines] == [
            "1 tags=b keys=k1 all body 1",
            "3 tags=b keys=k3 all body 3",
        ]


@pytest.mark.parametrize(
    "words",
    [
        ("query", "key", "k1", "--topic", "t"),
        ("query", "id", offset_id("127.0.0.1:10911", 0)),
        ("query", "offset", "0", "--topic", "t", "--queue", "0", "--tag", "a"),
        ("query", "time", NOW, "--topic", "t"),
        ("query", "time", NOW),
        ("query", "transactions"),
        ("query", "delayed"),
        ("query", "timer"),
        ("query", "consumers"),
        ("topics",),
        ("tail", "--topic", "t", "--seconds", "0", "--from-start"),
    ],
)
def test_a_lookup_starts_neither_spark_nor_a_compiler(filled, words):
    """
    They take seconds to import, and an operator waits for one message; one that is looked up by key
    or id is found without numpy, too.
    """
    assert_starts_quickly(filled.arguments(*words), codes={0, 1})


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("query", "--help"),
        ("inspect", "--help"),
        *((*group, name, "--help") for group, names in PAGES.items() for name in sorted(names)),
    ],
    ids=" ".join,
)
def test_a_page_starts_neither_spark_nor_a_compiler(words):
    """
    A page describes a command; what the command needs is not imported.
    """
    assert_starts_quickly(words, codes={0})


def assert_starts_quickly(arguments, codes):
    code = (
        "import sys\n"
        "from reput.streaming.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n"
        "    slow = {'pyspark', 'numba', 'llvmlite', 'pyarrow', 'pandas', 'py4j', 'rich'}\n"
        "    slow |= {'numpy'} if sys.argv[2:3] in (['key'], ['id']) else set()\n"
        "    print('imported', sorted(slow & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in codes, done.stderr
    assert done.stderr.splitlines()[-1] == "imported []"


def test_a_physical_offset_in_a_missing_file_names_the_file(reput):
    for i in range(150):
        reput.put(b"x" * 40, queue_offset=i)
    reput.log.write(reput.store)
    files = sorted((reput.store / "commitlog").iterdir())
    files[1].unlink()
    reput.output.mkdir()
    code, _, err = reput("query", "offset", int(files[1].name) + 300, "--physical")

    assert code == 3
    assert f"{files[1]} at byte 0" in err
    assert "the file is missing" in err
    assert "not one of this log's records" not in err


class TestTailAfterPassedOver:
    """An output whose queues lack messages: `tail` shows what `query offset` hands out."""

    @pytest.fixture
    def lacking(self, reput):
        numbers = {"t": 0, "o": 0}
        for i in range(150):
            topic = "to"[i % 3 == 2]
            body = f"{topic} {i}".encode().ljust(40)
            reput.put(
                body, topic, numbers[topic], store_timestamp=NOW + i, properties={"TAGS": "a"}
            )
            numbers[topic] += 1
        reput.log.write(reput.store)
        files = sorted((reput.store / "commitlog").iterdir())
        assert len(files) >= 5
        return reput, files

    def dispatch(self, reput):
        dispatcher = StoreDispatcher(config_of(reput.store, reput.output), skips_corrupt=True)
        dispatcher.dispatch(reput.log.end)
        dispatcher.close()

    def asked(self, reput):
        found, offset = [], 0
        while True:
            words = ("--topic", "t", "--queue", 0, "--limit", 32, "--json")
            code, shown, _ = reput("query", "offset", offset, *words)
            answer = json.loads(shown)
            if code == 1:
                return found
            found += [(m["in_queue_at"], m["queue_offset"]) for m in answer["messages"]]
            offset = answer["next_offset"]

    def tailed(self, reput):
        code, shown, err = reput("tail", "--topic", "t", "--from-start", "--seconds", 0.3, "--json")
        assert code == 0
        found = [json.loads(line) for line in shown.splitlines()]
        return [(m["in_queue_at"], m["queue_offset"]) for m in found], err

    def test_a_missing_file(self, lacking):
        """
        Each message after the gap is shown, and one note says why its place is not its number.
        """
        reput, files = lacking
        files[1].unlink()
        self.dispatch(reput)
        expected = self.asked(reput)
        assert expected[-1][0] < expected[-1][1]
        found, err = self.tailed(reput)
        assert found == expected
        assert err.count("places below the queue offsets in their records") == 1

    @pytest.mark.parametrize("broken", [1, 2])
    def test_several_places_and_one_that_came_back(self, lacking, broken):
        """
        The shift grows at each place. A file that is restored after it was passed over has
        records that the queues do not: the output's record of progress says so.
        """
        reput, files = lacking
        whole = files[broken].read_bytes()
        files[broken].unlink()
        with files[3].open("r+b") as file:
            file.seek(300)
            file.write(b"\xff" * 150)
        self.dispatch(reput)
        expected = self.asked(reput)
        assert len({number - at for at, number in expected}) >= 3
        assert self.tailed(reput)[0] == expected
        files[broken].write_bytes(whole)
        assert self.tailed(reput)[0] == expected

    def test_what_expired_before_it_was_dispatched(self, lacking):
        """
        All that the queue had before has expired as well: its first message is a shifted one.
        """
        reput, files = lacking
        config = config_of(reput.store, reput.output)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(int(files[1].name) + 1000)
        dispatcher.close()
        for path in files[:3]:
            path.unlink()
        dispatcher = StoreDispatcher(config, fail_on_data_loss=False)
        dispatcher.dispatch(reput.log.end)
        dispatcher.close()
        last = max(p.message.queue_offset for p in reput.log.places if p.message.topic == "t")
        found, err = self.tailed(reput)

        assert found
        assert found[-1][1] == last
        assert all(at < number for at, number in found)
        left = [p for p in reput.log.places if p.position >= int(files[3].name)]
        assert len(found) == len([p for p in left if p.message.topic == "t"])
        assert err.count("places below the queue offsets in their records") == 1

    def test_a_record_that_is_damaged_afterwards(self, lacking):
        """
        The first message after the gap can no longer be read: those after it are shown.
        """
        reput, files = lacking
        files[1].unlink()
        self.dispatch(reput)
        expected = self.asked(reput)
        first = next(i for i, (at, number) in enumerate(expected) if at != number)
        place = next(
            p
            for p in reput.log.places
            if (p.message.topic, p.message.queue_offset) == ("t", expected[first][1])
        )
        base = place.position - place.position % reput.log.file_size
        with (reput.store / "commitlog" / f"{base:020}").open("r+b") as file:
            file.seek(place.position - base + 100)
            file.write(b"\xff")
        assert self.tailed(reput)[0] == expected[:first] + expected[first + 1 :]
