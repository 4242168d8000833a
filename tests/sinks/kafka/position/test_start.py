"""Where a store with `start` "latest" begins: a place, and records before it that tell of cuts."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from reput.formats.errors import KafkaError
from reput.sinks.kafka.client.errors import AwayError
from reput.sinks.kafka.extent import Extent
from reput.sinks.kafka.following.parting import SentRecords, parting, sent_until
from reput.sinks.kafka.opening import rename_refusals, renamed
from reput.sinks.kafka.opening.opening import Connected
from reput.sinks.kafka.opening.renamed import Me, chosen
from reput.sinks.kafka.position import progress
from reput.sinks.kafka.position.memory import Memory, remember, remembered
from reput.sinks.kafka.position.position import Found, Position
from reput.sinks.kafka.position.start import Start, points_before, same_until
from reput.sinks.kafka.sink import KafkaSink
from reput.stores.log import trail
from reput.stores.log.trail import Fingerprint, Point
from reput.streaming.settings.config import store_config
from reput.streaming.settings.kafka import kafka_settings
from tests.kafka import stores
from tests.sinks.kafka.position.test_trail import sent_in, written

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.encode import Message
    from reput.sinks.kafka.sent import Sent
    from reput.stores.log.commitlog import CommitLog
    from tests.builders.stores import Log

FILE_SIZE = 1 << 16
COUNT = 1000


def messages(count: int = COUNT, *, new_from: int = COUNT, body: bytes = b"new") -> list[Message]:
    """Return messages of one size; those from a number on are of a log that was cut there."""
    made = stores.messages(count, ("x",), random.Random(1))
    return [
        m._replace(body=(body if number >= new_from else b"old") + b"%06d" % number, properties={})
        for number, m in enumerate(made)
    ]


def later(message: Message, by: int) -> Message:
    """Return a message that was stored and born some ms later."""
    stored, born = message.store_timestamp + by, message.born_timestamp + by
    return message._replace(store_timestamp=stored, born_timestamp=born)


def log_of(path: Path, **changes: Any) -> tuple[Log, CommitLog]:
    return written(path / "store", messages(**changes), FILE_SIZE)


def without_record(path: Path, base: int = 0) -> None:
    """Write a log as a broker does that has not stored a message yet, or has none any longer."""
    file = path / "store" / "commitlog" / f"{base:020}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(FILE_SIZE))


def sink(path: Path, name: str = "x", *, start: str = "latest", **settings: Any) -> KafkaSink:
    """Return a sink of the store; its Kafka is not asked."""
    conf = {"mappedFileSizeCommitLog": str(FILE_SIZE)}
    memory = path / "out" / ".reput" / "kafka.json"
    memory.parent.mkdir(parents=True, exist_ok=True)
    broker = store_config(path / "store", path / "out", broker_conf=conf).settings
    made = kafka_settings({"bootstrap": "127.0.0.1:1", "start": start} | settings)
    return KafkaSink(made, {}, name, path / "store", broker, memory=memory)


def kafka_of(cluster: str) -> Any:
    """Return a client of a Kafka that takes everything."""
    return SimpleNamespace(
        cluster=cluster,
        close=lambda **_: None,
        begin=lambda: None,
        abort=lambda: None,
        flush=lambda: None,
        in_flight=0,
    )


def prepared(
    sending: KafkaSink, position: Position, extent: Extent
) -> tuple[Position, Sent | None]:
    """Return what a sink makes of a position that it has found, and what it would send then."""
    sending.position = position
    sending.log.refresh()
    sent = sending._prepared(extent)
    assert sending.position is not None
    return sending.position, sent


def test_points_are_the_first_record_and_the_last_and_more_the_nearer_they_are(
    tmp_path: Path,
) -> None:
    made, log = log_of(tmp_path)
    points = points_before(log, made.end)
    ends = {place.end for place in made.places}

    assert points[0].record.physical_offset == 0
    assert points[-1].end == made.end
    assert {p.end for p in points} <= ends
    assert all(trail.is_there(log, p.record) for p in points)
    depths = [made.end - p.record.physical_offset for p in points[1:]]
    assert all(deep <= 4 * less + 1024 for deep, less in pairwise(depths))


def test_the_last_record_is_found_across_the_end_of_a_file(tmp_path: Path) -> None:
    """
    Also where what fills the file is longer than the nearest distance that is looked at.
    """
    found = messages(600)
    found[550] = found[550]._replace(body=bytes(40_000))
    made, log = written(tmp_path / "store", found, FILE_SIZE)
    large = made.places[550]
    assert made.places[549].end + 2048 < large.position
    assert large.position % FILE_SIZE == 0
    for number in (550, 551):
        end = made.places[number].position

        assert points_before(log, end)[-1].record.physical_offset == (
            made.places[number - 1].position
        )


def test_nothing_is_before_the_beginning_of_a_log(tmp_path: Path) -> None:
    _, log = log_of(tmp_path)

    assert points_before(log, 0) == ()


class TestSameUntil:
    @pytest.fixture
    def made(self, tmp_path: Path) -> tuple[Log, CommitLog]:
        return log_of(tmp_path)

    @pytest.mark.parametrize("body", [b"new", b"longer than the old ones"])
    @pytest.mark.parametrize("new_from", [20, 700, COUNT - 1])
    def test_a_log_that_was_cut_is_the_same_up_to_a_record_before_the_cut(
        self, tmp_path: Path, made: tuple[Log, CommitLog], new_from: int, body: bytes
    ) -> None:
        """
        The new log reaches past the place, and what stands at the place may be within a record.
        """
        place, points = made[0].end, points_before(made[1], made[0].end)
        log, after = log_of(tmp_path, count=COUNT + 50, new_from=new_from, body=body)
        cut = log.places[new_from].position

        same = same_until(after, place, points, None)

        assert same is not None
        assert same <= cut
        assert place - same <= 4 * (place - cut) + 2048
        assert same in {p.position for p in log.places}

    def test_bytes_that_stand_after_the_end_of_a_log_do_not_vouch_for_it(
        self, tmp_path: Path, made: tuple[Log, CommitLog]
    ) -> None:
        old, log = made
        tail = old.places[700].position
        points = points_before(log, old.end)
        assert trail.check(log, points).is_same

        same = same_until(log, old.end, points, tail)

        assert same is not None
        assert same <= tail
        assert same in {p.end for p in points}

    def test_where_dispatch_has_gone_back_it_begins_there(
        self, made: tuple[Log, CommitLog]
    ) -> None:
        old, log = made
        cut = old.places[500].position

        assert same_until(log, cut, points_before(log, old.end), None) == cut

    def test_another_log_is_the_same_from_its_beginning(
        self, tmp_path: Path, made: tuple[Log, CommitLog]
    ) -> None:
        points = points_before(made[1], made[0].end)
        _, other = log_of(tmp_path, new_from=0)

        assert same_until(other, made[0].end, points, None) == 0

    def test_without_points_a_log_that_ends_earlier_tells_nothing(
        self, made: tuple[Log, CommitLog]
    ) -> None:
        old, log = made

        assert same_until(log, old.end, (), old.end - 1000) is None
        assert same_until(log, old.end, (), None) == old.end


class TestMemory:
    def test_a_place_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        made, log = log_of(tmp_path)
        start = Start("reput-x", made.end, 7, points_before(log, made.end))
        path = tmp_path / "kafka.json"
        remember(path, Memory("c", "reput-x", latest=start))

        memory = remembered(path)
        assert memory is not None
        assert memory.latest == start

    def test_one_of_an_earlier_version_is_read_without_records(self, tmp_path: Path) -> None:
        path = tmp_path / "kafka.json"
        path.write_text('{"cluster": "", "id": "", "latest": ["reput-x", 1000, 7]}')

        memory = remembered(path)
        assert memory is not None
        assert memory.latest == Start("reput-x", 1000, 7)

    def test_each_byte_that_is_changed_is_found(self, tmp_path: Path) -> None:
        """
        Of a real file: it is refused, or says the same, as where white space is another one.
        """
        made, log = log_of(tmp_path)
        sending = sink(tmp_path)
        sending.decide_latest(Extent(made.end, None))
        path = tmp_path / "out" / ".reput" / "kafka.json"
        memory = remembered(path)
        assert memory is not None
        assert memory.latest is not None
        sent = Start("reput-x", made.end, 7, points_before(log, made.end))
        memory = memory._replace(cluster="c", transactional_id="reput-x", end=5, sent=sent)
        remember(path, memory)
        raw = path.read_bytes()
        taken = 0
        for at in range(len(raw)):
            others = {raw[at] ^ (1 << bit) for bit in range(8)} | {*b'\0\n \t",:{}0123456789'}
            for byte in others - {raw[at]}:
                path.write_bytes(raw[:at] + bytes([byte]) + raw[at + 1 :])
                try:
                    found = remembered(path)
                except KafkaError as error:
                    assert f"{path}: it is damaged" in str(error)  # noqa: PT017 - some are taken
                else:
                    assert found == memory, (at, byte)
                    taken += 1
        # The blank after the name of the CRC.
        assert taken <= len(b"\n\t")

    def test_one_that_is_cut_short_is_found(self, tmp_path: Path) -> None:
        """
        Wherever it ends: none of them passes for one of an earlier version.
        """
        path = tmp_path / "kafka.json"
        remember(path, Memory("c", "reput-x", 5, 6, "127.0.0.1:9092"))
        raw = path.read_bytes()
        for size in range(len(raw)):
            path.write_bytes(raw[:size])
            with pytest.raises(KafkaError, match="it is damaged"):
                remembered(path)
        path.write_bytes(raw.replace(b"\n", b""))
        with pytest.raises(KafkaError, match="not in a line of its own"):
            remembered(path)

    @pytest.mark.parametrize("number", ['"end": 1e999', '"end": ' + "[" * 100_000])
    def test_numbers_that_are_none_are_damage(self, tmp_path: Path, number: str) -> None:
        path = tmp_path / "kafka.json"
        path.write_text(f'{{"cluster": "c", "id": "reput-x", {number}}}')
        with pytest.raises(KafkaError, match="it is damaged"):
            remembered(path)

    @pytest.mark.parametrize(
        ("text", "memory"),
        [
            ('{"cluster": "c", "id": "reput-x"}', Memory("c", "reput-x")),
            (
                (
                    '{"cluster": "c", "id": "reput-x", "end": 5, "storeTimestamp": 6, "bootstrap": "k",'
                    ' "latest": null, "sent": ["reput-x", 1000, 7, [[1, 2, 3, 4]]]}'
                ),
                Memory(
                    "c",
                    "reput-x",
                    5,
                    6,
                    "k",
                    sent=Start("reput-x", 1000, 7, (Point(Fingerprint(1, 2, 3), 4),)),
                ),
            ),
        ],
    )
    def test_one_of_an_earlier_version_has_no_crc(
        self, tmp_path: Path, text: str, memory: Memory
    ) -> None:
        """
        It is read, and gets one when it is written next; what is written then, that version reads.
        """
        path = tmp_path / "kafka.json"
        path.write_text(text)
        found = remembered(path)
        assert found == memory

        remember(path, memory)
        assert path.read_bytes().startswith(b'{"crc": ')
        assert remembered(path) == memory
        values = json.loads(path.read_bytes())
        assert (values["cluster"], values["id"]) == ("c", "reput-x")

    def test_it_belongs_to_the_output_under_any_name(self, tmp_path: Path) -> None:
        """
        A start under another name, while Kafka is away, neither moves the place nor writes over it.
        """
        made, _ = log_of(tmp_path, count=300)
        sink(tmp_path).decide_latest(Extent(-1, None))
        grown, _ = log_of(tmp_path, count=600)
        for name in ("y", "x"):
            sending = sink(tmp_path, name)
            sending.decide_latest(Extent(grown.end, None))

            position = sending._opening.beginning.first_position(Extent(grown.end, None))
            assert position.end == position.since == made.end
            assert position.points[-1].end == made.end

    @pytest.mark.parametrize("damage", ["a record", "zeros"])
    def test_damage_before_the_end_of_the_log_does_not_move_the_place(
        self, tmp_path: Path, damage: str
    ) -> None:
        """
        It is the log's end at the first start, written down with records on both sides of the
        damage, and stays there at a start later on.
        """

        def damaged(count: int) -> Log:
            made, _ = log_of(tmp_path, count=count)
            place = made.places[100]
            broken = slice(4, 8) if damage == "a record" else slice(0, place.size)
            raw = bytearray((tmp_path / "store" / "commitlog" / f"{0:020}").read_bytes())
            raw[place.position + broken.start : place.position + broken.stop] = bytes(
                b"JUNK" if damage == "a record" else place.size
            )
            (tmp_path / "store" / "commitlog" / f"{0:020}").write_bytes(raw)
            return made

        made = damaged(300)
        sink(tmp_path).decide_latest(Extent(-1, None))
        grown = damaged(350)
        for end in (-1, made.places[50].position, grown.end):
            sending = sink(tmp_path)
            sending.decide_latest(Extent(end, None))

            position = sending._opening.beginning.first_position(Extent(end, None))
            assert position.end == position.since == made.end
            assert position.points[-1].end == made.end
            assert len([p for p in position.points if p.end > made.places[110].position]) > 3

    @pytest.mark.parametrize("is_known", [True, False], ids=["", "of an earlier version"])
    def test_another_kafka_at_the_same_address_lacks_nothing_from_the_outage_on(
        self, tmp_path: Path, is_known: bool
    ) -> None:
        """
        The store was sent, and its Kafka goes away: neither what is dispatched then nor a start in
        between moves the place where sending begins in an empty one, and an event says where.
        """
        made, log = log_of(tmp_path, count=300)
        first = sink(tmp_path)
        first.position = Position(made.end, points_before(log, made.end), since=0)
        first._opening.memory.cluster, first._opening.memory.knows_position = "c", True
        first.remember()
        if not is_known:
            assert first._opening.memory.path is not None
            values = json.loads(first._opening.memory.path.read_text())
            del values["sent"], values["crc"]
            first._opening.memory.path.write_text(json.dumps(values))
        for count in (300, 400, 500):
            grown, _ = log_of(tmp_path, count=count)
            sending = sink(tmp_path, mode="idempotent")
            extent = Extent(grown.end, None)
            sending.decide_latest(extent)
            sending._begin(extent, Connected(kafka_of("d"), None, 8))

            position = sending.position
            assert position is not None
            assert position.end == position.since == made.end
            assert position.points[-1].end == made.end
            (event,) = sending._reports.events
            assert f"offset {made.end}: sending begins at {made.end} there" in event

    @pytest.fixture
    def sent(self, tmp_path: Path) -> tuple[KafkaSink, int]:
        """Return a sink whose output remembers that it was sent, and up to where."""
        made, log = log_of(tmp_path, count=300)
        first = sink(tmp_path)
        first.decide_latest(Extent(-1, None))
        first.position = Position(made.end, points_before(log, made.end), since=0)
        first._opening.memory.cluster, first._opening.memory.knows_position = "c", True
        first.remember()
        return first, made.end

    @pytest.mark.parametrize("last", ["x", "y"], ids=["again as before", "as another one"])
    def test_a_start_under_another_name_in_an_outage_does_not_move_it(
        self, tmp_path: Path, sent: tuple[KafkaSink, int], last: str
    ) -> None:
        """
        Nor does one with another address. An empty Kafka answers then: an event says where it goes
        on.
        """
        grown, _ = log_of(tmp_path, count=600)
        extent = Extent(grown.end, None)
        sink(tmp_path, "y").decide_latest(extent)
        sink(tmp_path, "x", bootstrap="127.0.0.1:2").decide_latest(extent)
        sending = sink(tmp_path, last, mode="idempotent")
        sending.decide_latest(extent)
        sending._begin(extent, Connected(kafka_of("d"), None, 8))

        position = sending.position
        assert position is not None
        assert position.end == position.since == sent[1]
        (event,) = sending._reports.events
        assert f"offset {sent[1]}: sending begins at {sent[1]} there" in event

    def test_a_way_beside_the_former_one_begins_at_the_latest(
        self, tmp_path: Path, sent: tuple[KafkaSink, int]
    ) -> None:
        """
        With on_rename = "begin" the operator asks for that; the former way keeps its place.
        """
        grown, _ = log_of(tmp_path, count=600)
        extent = Extent(grown.end, None)
        beside = sink(tmp_path, "y", on_rename="begin")
        beside.decide_latest(extent)
        former = sink(tmp_path)
        former.decide_latest(extent)

        assert beside._opening.beginning.first_position(extent).end == grown.end
        assert former._opening.beginning.first_position(extent).end == sent[1]

    def test_another_kafka_that_answers_a_running_job_lacks_nothing_and_gets_nothing_twice(
        self, tmp_path: Path, sent: tuple[KafkaSink, int]
    ) -> None:
        """
        Sending begins where it ended, and not where it was to begin when the job started.
        """
        running, end = sent
        grown, log = log_of(tmp_path, count=600)
        assert running.position is not None
        running.position = replace(
            running.position, end=grown.end, points=points_before(log, grown.end)
        )
        running.remember()

        assert (
            end
            < running._opening.beginning.first_position(Extent(grown.end, None)).end
            == grown.end
        )

    def test_an_output_that_has_gone_back_to_the_beginning_is_not_a_new_one(
        self, tmp_path: Path
    ) -> None:
        """
        It was dispatched in one batch without Kafka, and the log was cut while the job was down: all
        that is dispatched from then on is sent, also after a restart.
        """
        made, _ = log_of(tmp_path, count=300)
        for end in (-1, made.end):
            extent = Extent(end, None, cuts=((1, 0),))
            sending = sink(tmp_path)
            sending.decide_latest(extent)

            position = sending._opening.beginning.first_position(extent)
            assert position.end == position.since == 0


class TestLogWithoutRecord:
    """A place that was written to Kafka while the log had no record that could vouch for it."""

    @pytest.fixture
    def position(self, tmp_path: Path) -> Position:
        """Return the position of a store "x" that begins; its log has records after that."""
        without_record(tmp_path)
        sending = sink(tmp_path)
        sending.decide_latest(Extent(-1, None))
        sending.log.refresh()
        found = sending._opening.beginning.first_position(Extent(-1, None))
        assert found.has_no_record
        log_of(tmp_path, count=300)
        return replace(found, origin=str((tmp_path / "store").resolve()))

    def renamed(self, path: Path, position: Position, **settings: Any) -> Any:
        """Return what a new output of the store finds under another name."""
        sending = sink(path, "y", **settings)
        sending._opening.memory.path = path / "other.json"
        if settings.get("start") != "earliest":
            sending.decide_latest(Extent(-1, None))
        me = Me("reput-y", str(sending._link.path), "", sending._opening.beginning.leaves_out)
        return chosen({"reput-x": Found(position, 0)}, me, sending.log)

    def test_under_another_name_it_is_asked_whose_it_is(
        self, tmp_path: Path, position: Position
    ) -> None:
        """
        A new output would begin at the log's end: Kafka waits, and the message names the id.
        """
        (other,) = self.renamed(tmp_path, position)
        assert not other.is_certain
        sending = sink(tmp_path, "y")
        sending.decide_latest(Extent(-1, None))
        sending._opening.memory.path = None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(renamed, "find", lambda *_: [other])
            patch.setattr(progress, "read", lambda *_: None)
            with pytest.raises(AwayError, match=r"which had no record then.* reput-x \(0\)"):
                sending._opening.former.find("c", 8)
            # A way beside has a place of its own, and not where the output was sent up to.
            sending._opening.memory.path = tmp_path / "sent.json"
            for place, said in ((None, "only what is dispatched after that"), (7, "at 7 then")):
                latest = Start("reput-y", place, 0) if place is not None else None
                memory = Memory("d", "reput-z", latest=latest, sent=Start("reput-z", 5000, 0))
                remember(sending._opening.memory.path, memory)
                with pytest.raises(AwayError, match=said):
                    sending._opening.former.find("c", 8)

    def test_where_nothing_is_left_out_it_says_nothing(
        self, tmp_path: Path, position: Position
    ) -> None:
        """
        So stores of one layout that begin together, or at the earliest, do not wait for each other.
        """
        assert self.renamed(tmp_path, position, start="earliest") == []
        assert self.renamed(tmp_path, replace(position, origin="/else/store")) == []
        without_record(tmp_path)
        (tmp_path / "other.json").unlink(missing_ok=True)
        assert self.renamed(tmp_path, position) == []

    def test_a_record_that_the_log_had_when_kafka_came_vouches_for_it(
        self, tmp_path: Path, position: Position
    ) -> None:
        """
        The place was decided before, and was away from Kafka until the log had records.
        """
        claimed = sink(tmp_path)
        claimed.decide_latest(Extent(-1, None))
        first = claimed._opening.beginning.first_position(Extent(-1, None))
        assert (first.end, first.points, first.has_no_record) == (0, (), False)

        (other,) = self.renamed(tmp_path, first)
        assert other.is_certain
        assert position.end == first.end

    def test_a_second_store_of_the_name_does_not_take_it(
        self, tmp_path: Path, position: Position
    ) -> None:
        """
        It would send all its old messages. The one that wrote it goes on, also at another path, as
        its output remembers the place; so does one with on_truncation, and an event says where.
        """
        log_of(tmp_path / "b", new_from=0)
        second = sink(tmp_path / "b")
        second.decide_latest(Extent(-1, None))
        with pytest.raises(KafkaError, match="had no record then, so nothing tells"):
            second._opening.identity.check(position, "c")

        first = sink(tmp_path)
        first.decide_latest(Extent(-1, None))
        first._opening.identity.check(position, "c")
        first._opening.identity.check(replace(position, origin="/else/store"), "c")
        accepted = sink(tmp_path / "b", on_truncation="continue", mode="idempotent")
        accepted.decide_latest(Extent(-1, None))
        accepted._opening.identity.check(position, "c")
        accepted._begin(Extent(-1, None), Connected(kafka_of("c"), Found(position, 0), 8))
        (event,) = accepted._reports.events
        assert "sending begins there, at 0, and not at" in event

    @pytest.mark.parametrize("start", ["earliest", "latest"])
    @pytest.mark.parametrize("is_here", [False, True], ids=["elsewhere", "at the same path"])
    def test_a_second_store_of_the_name_does_not_begin_late(
        self, tmp_path: Path, start: str, is_here: bool
    ) -> None:
        """
        All of the first one's log has expired but the next file, made ahead: its place is not 0. All
        that the second one's log has before that would be left out.
        """
        without_record(tmp_path / "a", FILE_SIZE)
        first = sink(tmp_path / "a", start=start)
        log_of(tmp_path / "b", count=100)
        second = sink(tmp_path / "b", start=start, mode="idempotent")
        if start == "latest":
            for each in (first, second):
                each.decide_latest(Extent(-1, None))
        own = second._opening.beginning.leaves_out
        first.log.refresh()
        position = first._opening.beginning.first_position(Extent(-1, None))
        assert (position.end, position.has_no_record) == (FILE_SIZE, True)
        first._opening.identity.check(replace(position, origin=str(first._link.path)), "c")
        new = sink(tmp_path / "a", start="earliest")
        new._opening.identity.check(replace(position, origin="/else/store"), "c")
        log_of(tmp_path / "b")
        position = replace(position, origin=str(second._link.path) if is_here else "/else/store")

        with pytest.raises(KafkaError, match=f"begins before the place of that, {FILE_SIZE}"):
            second._opening.identity.check(position, "c")
        accepted = sink(tmp_path / "b", start=start, on_truncation="continue", mode="idempotent")
        if start == "latest":
            accepted.decide_latest(Extent(-1, None))
        accepted._opening.identity.check(position, "c")
        accepted._begin(Extent(-1, None), Connected(kafka_of("c"), Found(position, 0), 8))
        (event,) = accepted._reports.events
        assert f"sending begins there, at {FILE_SIZE}, and not at {own}" in event

    def test_the_first_record_that_is_dispatched_is_told_kafka_though_it_is_not_wanted(
        self, tmp_path: Path, position: Position
    ) -> None:
        made, _ = log_of(tmp_path, count=300)
        sending = sink(tmp_path, exclude="*", mode="idempotent")
        sending.decide_latest(Extent(-1, None))
        sending._begin(Extent(-1, None), Connected(kafka_of("c"), Found(position, 0), 8))
        added: list[Position] = []
        sending._positions.add = lambda _, each, *__: added.append(each)  # type: ignore[method-assign]

        assert sending.send(Extent(made.end, None)) is not None
        assert [(each.end, each.has_no_record) for each in added] == [(made.end, False)]


def test_a_position_says_since_where_a_store_is_sent() -> None:
    """
    One of an earlier version does not, and counts as sent.
    """
    position = Position(700, since=700)
    values = json.loads(position.pack())

    assert Position.unpack(position.pack(), "x") == position
    assert position.is_unsent
    del values["since"]
    assert not Position.unpack(json.dumps(values).encode(), "x").is_unsent


class TestFollowing:
    """A position that nothing was sent before, and the log is cut."""

    def position(self, path: Path, extent: Extent) -> Position:
        sending = sink(path)
        sending.decide_latest(extent)
        return sending._opening.beginning.first_position(extent)

    @pytest.mark.parametrize("count", [COUNT + 50, 800], ids=["past it", "before it"])
    @pytest.mark.parametrize("body", [b"new", b"longer than the old ones"])
    def test_sending_begins_where_the_log_was_cut(
        self, tmp_path: Path, count: int, body: bytes
    ) -> None:
        """
        Before dispatch had come to the place, so it knows of no cut; nobody has to accept that.
        """
        old, _ = log_of(tmp_path)
        position = self.position(tmp_path, Extent(-1, None))
        new, _ = log_of(tmp_path, count=count, new_from=700, body=body)
        cut = new.places[700].position

        found, sent = prepared(sink(tmp_path), position, Extent(new.end, None))

        assert sent is not None
        assert sent.start == found.end == found.since <= cut
        assert old.end - found.end <= 4 * (old.end - cut) + 2048
        assert all(p.end <= found.end for p in found.points)

    @pytest.mark.parametrize(("cut", "new"), [(3, 1), (50, 10), (40, 30), (3, 3), (200, 100)])
    @pytest.mark.parametrize("more", [0, 50])
    @pytest.mark.parametrize("is_torn", [False, True], ids=["", "and the last one is new"])
    def test_sending_begins_before_new_records_that_old_ones_follow(
        self, tmp_path: Path, cut: int, new: int, more: int, *, is_torn: bool
    ) -> None:
        """
        Of the same sizes, and where no point is; dispatch had not come there. They are newer. The
        last old one may have been torn, and another one stands there.
        """
        raw = messages()
        written(tmp_path / "store", raw, FILE_SIZE)
        position = self.position(tmp_path, Extent(-1, None))
        first = COUNT - cut
        changed = messages(COUNT + more)
        for number in range(first, first + new):
            changed[number] = later(raw[number], 3_600_000)._replace(body=b"new%06d" % number)
        if is_torn:
            changed[COUNT - 1] = later(raw[COUNT - 1], 3_700_000)._replace(body=b"trn%06d" % COUNT)
        for number in range(COUNT, COUNT + more):
            changed[number] = later(changed[number], 7_200_000)
        now, _ = written(tmp_path / "store", changed, FILE_SIZE)

        found, sent = prepared(sink(tmp_path), position, Extent(now.end, None))

        assert sent is not None
        assert sent.start == found.end == found.since <= now.places[first].position
        distance = position.end - now.places[first].position
        assert position.end - found.end <= 4 * distance + 2048

    def test_the_place_stays_while_a_new_output_catches_up(self, tmp_path: Path) -> None:
        log_of(tmp_path)
        position = self.position(tmp_path, Extent(-1, None))

        assert prepared(sink(tmp_path), position, Extent(5000, None)) == (position, None)

    def test_a_place_without_records_holds_kafka_back_with_what_is_true(
        self, tmp_path: Path
    ) -> None:
        """
        An earlier version wrote it: how much is new is not known, and nothing was ever sent.
        """
        old, _ = log_of(tmp_path)
        position = Position(old.end, since=old.end)
        new, _ = log_of(tmp_path, count=800, new_from=700)

        with pytest.raises(KafkaError, match="nothing was sent yet") as caught:
            prepared(sink(tmp_path), position, Extent(new.end, None))
        assert "stays in Kafka" not in str(caught.value)

        sending = sink(tmp_path, on_truncation="continue")
        assert prepared(sending, position, Extent(new.end, None))[0].end == new.end

    def test_what_is_said_of_a_cut_begins_where_sending_began(self, tmp_path: Path) -> None:
        """
        Some was sent, and the log was cut before the place at which that began.
        """
        old, log = log_of(tmp_path)
        since = old.places[500].position
        points = points_before(log, since)
        position = Position(old.end, (*points, points_before(log, old.end)[-1]), since=since)
        log_of(tmp_path, count=COUNT + 50, new_from=400)
        sending = sink(tmp_path)
        sending._follower.comparison.parting = lambda *_: None  # type: ignore[method-assign]

        with pytest.raises(KafkaError, match=f"offsets {since} to {old.end} is no longer"):
            prepared(sending, position, Extent(old.end, None))

    def follow(
        self,
        path: Path,
        raw: list[Message],
        changed: list[Message],
        looked: int,
        *,
        number: int = 1,
        **settings: Any,
    ) -> tuple[Log, Position]:
        """Return where sending goes on after all from record 500 on was sent, and a log has changed.

        Args:
            path: of the test.
            raw: messages of the log that was sent.
            changed: those that it has now.
            looked: record before which dispatch has gone back to.
            number: of that cut; that of the last one that was followed is 1000.
            **settings: of Kafka.
        """
        old, log = written(path / "store", raw, FILE_SIZE)
        since = old.places[500].position
        points = (*points_before(log, since), points_before(log, old.end)[-1])
        position = Position(old.end, points, cut=1000, since=since)
        values = sent_until(sent_in(log, [old.end]), old.end).values
        known = SentRecords(since, values[500:], ((since, 0),))
        new, _ = written(path / "store", changed, FILE_SIZE)
        sending = sink(path, **settings)
        sending._follower.comparison.parting = lambda *_: parting(  # type: ignore[method-assign]
            sending.log, known, old.end, new.end, {}, 1
        )
        cuts = ((number, old.places[looked].position),)
        return old, prepared(sending, position, Extent(new.end, None, cuts=cuts))[0]

    @pytest.mark.parametrize(
        ("new", "by", "looked"),
        [
            (range(100, 120), 3_600_000, 40),
            (range(100, 120), -5_000, 40),
            (range(100, 120), -5_000, 100),
            (range(0), 0, 40),
        ],
        ids=["new records", "by a clock that has gone back", "from where it had looked", "none"],
    )
    @pytest.mark.parametrize("same", [500, 300], ids=["all the same", "to a shorter end"])
    def test_a_cut_before_all_that_was_sent_is_said_though_the_same_bytes_follow(
        self, tmp_path: Path, new: range, by: int, looked: int, same: int
    ) -> None:
        """
        The broker has erased nothing, and its new records are of the old ones' sizes: what was sent
        still stands after them. They are newer by the broker's clock, or by the producers'. Where
        there are none, dispatch only had to go back to where it had last looked: nothing is sent
        again.
        """
        raw = messages()
        changed = raw[: 500 + same]
        for number in new:
            changed[number] = raw[number]._replace(
                body=b"new%06d" % number,
                store_timestamp=raw[number].store_timestamp + by,
                born_timestamp=raw[number].born_timestamp + 3_600_000,
            )
        if new:
            with pytest.raises(
                KafkaError, match=r"is no longer in the log.*single records are not"
            ):
                self.follow(tmp_path, raw, changed, looked)
            old, position = self.follow(tmp_path, raw, changed, looked, on_truncation="continue")
            assert position.end == old.places[looked].position
        else:
            old, position = self.follow(tmp_path, raw, changed, looked, on_truncation="continue")
            assert position.end == old.end

    def test_a_point_before_the_place_tells_whatever_the_clocks_say(self, tmp_path: Path) -> None:
        """
        The store had rested before the place, and the clock of its new master is half an hour
        behind: the new records look as if they stood there in their turn.
        """
        raw = messages()
        for number in range(500, COUNT):
            raw[number] = later(raw[number], 3_600_000)
        changed = list(raw)
        for number in range(400, 500):
            changed[number] = later(raw[number], 1_800_000)._replace(body=b"new%06d" % number)

        with pytest.raises(KafkaError, match=r"is no longer in the log.*single records are not"):
            self.follow(tmp_path, raw, changed, 400)
        old, position = self.follow(tmp_path, raw, changed, 400, on_truncation="continue")
        assert position.end <= old.places[400].position

    @pytest.mark.parametrize("number", [900, 1001], ids=["earlier", "later"])
    def test_a_cut_counts_whatever_the_clock_says_of_the_host_that_found_it(
        self, tmp_path: Path, number: int
    ) -> None:
        """
        A new output, on a host whose clock is behind, gives it a lower number than that of the last
        cut that was followed. The old bytes still stand where the points are.
        """
        raw = messages()
        changed = list(raw)
        for each in range(650, 710):
            changed[each] = later(raw[each], -5)._replace(body=b"new%06d" % each)

        with pytest.raises(KafkaError, match="is no longer in the log"):
            self.follow(tmp_path, raw, changed, 600, number=number)
        old, position = self.follow(
            tmp_path, raw, changed, 600, number=number, on_truncation="continue"
        )
        assert (position.end, position.cut) == (old.places[650].position, number)
        # And one that changed nothing is not told.
        assert self.follow(tmp_path, raw, raw, 600, number=number)[1].end == old.end

    def test_a_cut_that_was_followed_is_not_followed_again(self) -> None:
        """
        By the list of the output that has found it; of two that it has made one, too.
        """
        extent = Extent(100, None, cuts=((5, 50), (3, 40), (9, 30)))

        assert extent.cut_since(0) == extent.cut_since(7) == [50, 40, 30]
        assert extent.cut_since(5) == [40, 30]
        assert extent.cut_since(9) == []

    @pytest.mark.parametrize(
        ("step", "cut"), [(50, 990), (50, None), (5_000, 990)], ids=["cut", "not cut", "long"]
    )
    @pytest.mark.parametrize("at", [100, 390, 450])
    @pytest.mark.parametrize("looked", [0, 400, 499])
    def test_a_clock_that_was_set_back_long_ago_is_no_cut(
        self, tmp_path: Path, step: int, cut: int | None, at: int, looked: int
    ) -> None:
        """
        Somewhere before the place, in records that nobody has touched. Digests tell where a cut is.
        """
        raw = messages()
        raw[at:] = [later(message, -step) for message in raw[at:]]
        changed = list(raw)
        if cut is not None:
            changed[cut:] = [later(m, 60_000)._replace(body=b"NEW") for m in raw[cut:]]
            with pytest.raises(KafkaError, match="is no longer in the log, and stays in Kafka\\. "):
                self.follow(tmp_path, raw, changed, looked)

        old, position = self.follow(tmp_path, raw, changed, looked, on_truncation="continue")
        assert position.since == old.places[500].position
        assert position.end == (old.end if cut is None else old.places[cut].position)

    @pytest.mark.parametrize("cut", [990, None], ids=["cut", "not cut"])
    @pytest.mark.parametrize("looked", [0, 400, 499])
    def test_messages_that_were_born_long_before_are_no_cut(
        self, tmp_path: Path, cut: int | None, looked: int
    ) -> None:
        """
        Delayed and repeated ones: those before the place were born after all that was sent.
        """
        raw = messages()
        raw[500:] = [m._replace(born_timestamp=m.born_timestamp - 10_000) for m in raw[500:]]
        changed = list(raw)
        if cut is not None:
            changed = raw[:cut]

        old, position = self.follow(tmp_path, raw, changed, looked, on_truncation="continue")
        assert position.since == old.places[500].position
        assert position.end == old.end

    @pytest.mark.parametrize("number", [3, 5, 7])
    def test_an_old_cut_of_another_output_does_not_move_the_place(
        self, tmp_path: Path, number: int
    ) -> None:
        """
        Both have found it, before the place was decided; each gave it a number of its own.
        """
        made, log = log_of(tmp_path)
        position = replace(
            self.position(tmp_path, Extent(made.end, None)),
            points=points_before(log, made.end),
            cut=5,
        )
        cuts = ((number, made.places[400].position),)

        found, _ = prepared(sink(tmp_path), position, Extent(made.end, None, cuts=cuts))
        assert found.end == found.since == made.end


def test_a_memory_that_cannot_be_written_does_not_hold_back_what_kafka_has_taken(
    tmp_path: Path,
) -> None:
    """
    What was committed counts, and sending goes on.
    """
    made, _ = log_of(tmp_path)
    sending = sink(tmp_path, start="earliest", mode="idempotent", exclude="*")
    added: list[Position] = []
    sending._positions.add = lambda _, each, *__: added.append(each)  # type: ignore[method-assign]
    sending._begin(Extent(0, None), Connected(kafka_of("c"), None, 8))
    assert sending._opening.memory.path is not None
    blocked = sending._opening.memory.path.with_suffix(".new")
    blocked.mkdir()
    for number in (100, 200):
        sending._reports.events.append("something to tell")
        sent = sending.send(Extent(made.places[number].position, None))
        assert sent is not None
        assert sent.end == added[-1].end == made.places[number].position
    with pytest.raises(IsADirectoryError):
        sending.remember()
    blocked.rmdir()
    sending.remember()
    known = remembered(sending._opening.memory.path)
    assert known is not None
    assert known.end == made.places[200].position


def test_a_renamed_store_is_found_though_nothing_was_sent_yet(tmp_path: Path) -> None:
    """
    Another output would begin at the log's end, and leave out what came since the first start.
    """
    made, log = log_of(tmp_path)
    end = made.places[300].position
    sending = sink(tmp_path)
    sending.decide_latest(Extent(end, None))
    position = sending._opening.beginning.first_position(Extent(end, None))
    me = Me("reput-new", "/else", "")

    others = chosen({"reput-x": Found(position, 0)}, me, log)

    assert [(each.transactional_id, each.is_certain) for each in others] == [("reput-x", True)]
    said = rename_refusals.refusal(sending._link.settings, "new", me, others[0])
    assert f"to be sent from physical offset {end} on, and nothing was sent yet" in said
    assert "it was sent up to" not in said


@pytest.mark.parametrize("start", ["latest", "earliest"])
def test_a_position_that_nothing_was_sent_before_is_not_of_another_store(
    tmp_path: Path, start: str
) -> None:
    """
    Two stores of one name: the second one would go on in the middle of its own log.
    """
    for name, new_from in (("a", COUNT), ("b", 0)):
        log_of(tmp_path / name, new_from=new_from)
    first, second = (sink(tmp_path / name, start=start) for name in ("a", "b"))
    if start == "latest":
        first.decide_latest(Extent(-1, None))
    position = first._opening.beginning.first_position(Extent(0, None))

    first._opening.identity.check(position, "c")
    with pytest.raises(KafkaError, match="is of another store"):
        second._opening.identity.check(position, "c")


def test_a_store_that_begins_at_its_log_is_not_held_back_by_its_other_name(tmp_path: Path) -> None:
    """
    Nothing was sent under that, and nothing is left out under the new one.
    """
    _, log = log_of(tmp_path)
    position = sink(tmp_path, start="earliest")._opening.beginning.first_position(Extent(0, None))

    assert position.first is not None
    assert chosen({"reput-x": Found(position, 0)}, Me("reput-new", "/else", ""), log) == []


def test_another_store_at_the_same_path_is_another_one_though_both_have_lost_their_beginnings(
    tmp_path: Path,
) -> None:
    """
    Hosts of one layout. Of the store itself, cut deeper than what is known, its output remembers
    that it was sent: then that is a cut as any other.
    """
    made, log = log_of(tmp_path)
    begin = tmp_path / "store" / "commitlog" / f"{0:020}"
    hashed = trail.hash_at(log, 0)
    assert hashed is not None
    points = points_before(log, made.end)
    path = str((tmp_path / "store").resolve())
    position = Position(made.end, points, first=(0, hashed), origin=path, since=0)
    log_of(tmp_path, new_from=0)
    begin.unlink()
    sending = sink(tmp_path)

    with pytest.raises(KafkaError, match="If it is another store: Give this one a name"):
        sending._opening.identity.check(position, "c")
    assert sending._opening.memory.path is not None
    remember(sending._opening.memory.path, Memory("c", "reput-x", made.end))
    sending._opening.identity.check(position, "c")
    with pytest.raises(KafkaError, match="If it is another store"):
        sending._opening.identity.check(position, "d")
    # All that is known has expired: what was sent before that cannot come again.
    expired = replace(position, points=tuple(p for p in points if p.end <= FILE_SIZE))
    sending._opening.identity.check(replace(expired, origin="/else/store"), "d")
    sending._opening.identity.check(replace(expired, end=FILE_SIZE - 1), "d")
    with pytest.raises(KafkaError, match="nothing of what was sent from there"):
        sending._opening.identity.check(
            replace(expired, end=FILE_SIZE - 1, origin="/else/store"), "d"
        )


def test_a_file_that_is_damaged_does_not_make_a_store_another_one(tmp_path: Path) -> None:
    """
    All records that are known, and are not expired, were in it. At another path it is not known.
    """
    made, log = log_of(tmp_path, count=2000)
    end = next(place.end for place in made.places if place.position > 2 * FILE_SIZE + 20_000)
    points = tuple(p for p in points_before(log, end) if p.record.physical_offset >= 2 * FILE_SIZE)
    hashed = trail.hash_at(log, 0)
    assert hashed is not None
    path = str((tmp_path / "store").resolve())
    position = Position(end, points, first=(0, hashed), origin=path, since=0)
    files = tmp_path / "store" / "commitlog"
    (files / f"{0:020}").unlink()
    broken = files / f"{2 * FILE_SIZE:020}"
    broken.write_bytes(broken.read_bytes()[:1000])
    sending = sink(tmp_path)

    sending._opening.identity.check(position, "c")
    with pytest.raises(KafkaError, match="nothing of what was sent from there"):
        sending._opening.identity.check(replace(position, origin="/else/store"), "c")


@pytest.mark.parametrize("damage", ["a record", "zeros"])
def test_a_log_that_ends_before_the_position_is_seen_past_damage(
    tmp_path: Path, damage: str
) -> None:
    """
    The place was passed over; the log was cut after it, and bytes of the old records still stand.
    Whether dispatch gets past the place is not known before it has.
    """
    file = tmp_path / "store" / "commitlog" / f"{0:020}"

    def hurt() -> None:
        raw = bytearray(file.read_bytes())
        at, size = old.places[100].position, old.places[100].size
        raw[at : at + size] = b"J" * size if damage == "a record" else bytes(size)
        file.write_bytes(raw)

    old, log = log_of(tmp_path, count=400)
    place = old.places[100]
    points = points_before(log, place.position)
    position = Position(old.end, points, since=0)
    hurt()
    was = file.read_bytes()
    found = messages(400)[:320]
    for number in range(300, 320):
        later = found[number].store_timestamp + 9000
        found[number] = found[number]._replace(body=b"newer%06d" % number, store_timestamp=later)
    new, _ = written(tmp_path / "store", found, FILE_SIZE)
    hurt()
    raw = file.read_bytes()
    file.write_bytes(raw[: new.end] + was[new.end :])
    sending = sink(tmp_path)
    sending._follower.comparison.parting = lambda *_: None  # type: ignore[method-assign]
    gaps = ((place.position, place.position + place.size),)

    assert prepared(sending, position, Extent(place.position, None))[1] is None
    with pytest.raises(KafkaError, match=f"to {old.end} is no longer in the log"):
        prepared(sending, position, Extent(new.end, None, gaps))
