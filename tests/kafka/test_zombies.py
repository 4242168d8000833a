"""Two jobs with one transactional id: the later one wins, however long the earlier one slept."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka.errors import KafkaError

from reput.sinks.kafka.client.errors import (
    AwayError,
    EndedError,
    FencedError,
    RefusedError,
)
from reput.sinks.kafka.extent import Extent
from reput.sinks.kafka.opening import ownership, renamed, takeover
from reput.sinks.kafka.sink import KafkaSink
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.waiting import wait_until
from tests.kafka import stores
from tests.kafka.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput.sinks.kafka.client.producer import Client

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT = 4
_PATIENCE = 60.0


def start(
    tmp_path: Path,
    output: str,
    broker: Broker,
    end: int,
    program: tuple[str, str] = ("-m", "tests.kafka.core"),
    more: tuple[str, ...] = (),
) -> subprocess.Popen[bytes]:
    """Start a process that dispatches and sends, and ends when Kafka has everything."""
    with (tmp_path / f"{output}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *program, str(tmp_path / "store"),
             str(tmp_path / output), broker.address, str(end), f"name={tmp_path.name}",
             f"transaction_timeout_seconds={_TIMEOUT}", "transaction_seconds=3", "batch_bytes=2k",
             "on_failure=stop", "buffer_bytes=16k", *more],
            cwd=ROOT, stdout=log, stderr=log,
        )  # fmt: skip


# Stops itself as it is about to commit its claim.
STOPS = """
import os, signal, sys
from reput.sinks.kafka.client.producer import Client
from tests.kafka.core import main
commit = Client.commit
def stop(self):
    Client.commit = commit
    os.kill(os.getpid(), signal.SIGSTOP)
    commit(self)
Client.commit = stop
sys.exit(main(*sys.argv[1:]))
"""

# Stops itself once Kafka has refused a batch, before it begins again without what is wrong.
STOPS_AT_A_REFUSAL = """
import os, signal, sys
from reput.sinks.kafka.messages.refusals import Refusals
from tests.kafka.core import main
learn = Refusals.learn
def stop(self, error):
    Refusals.learn = learn
    os.kill(os.getpid(), signal.SIGSTOP)
    learn(self, error)
Refusals.learn = stop
sys.exit(main(*sys.argv[1:]))
"""
# Stops itself before it connects.
STOPS_AT_ONCE = """
import os, signal, sys
from reput.sinks.kafka.client.producer import Client
from tests.kafka.core import main
connect = Client.__init__
def stop(self, *args):
    Client.__init__ = connect
    os.kill(os.getpid(), signal.SIGSTOP)
    connect(self, *args)
Client.__init__ = stop
sys.exit(main(*sys.argv[1:]))
"""


def end_all(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End what a test has left running."""
    for each in processes:
        if each.poll() is None:
            each.kill()
            each.wait()


def require_later_won(
    tmp_path: Path, first: subprocess.Popen[bytes], second: subprocess.Popen[bytes]
) -> None:
    """Require that the second process ended well, and the first one because of it."""
    said = [(tmp_path / f"out-{name}.log").read_text() for name in "ab"]
    assert second.returncode == 0, said[1][-2000:]
    assert first.returncode != 0
    assert "another process writes with this store's transactional id" in said[0]


def is_stopped(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether a process has stopped."""
    assert process.poll() is None
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def is_within(broker: Broker, name: str) -> bool:
    """Tell whether a transaction with messages of a store is open."""
    admin = broker.admin()
    try:
        (found,) = admin.describe_transactions([f"reput-{name}"]).values()
    except KafkaError:
        # There is none yet.
        return False
    finally:
        admin.close()
    return found.state.value == "Ongoing" and name in {p.topic for p in found.topic_partitions}


def wait_for(what: str, is_there: Callable[[], bool]) -> None:
    wait_until(is_there, _PATIENCE, says=lambda: what)


def stop_within(broker: Broker, name: str, process: subprocess.Popen[bytes]) -> None:
    """Stop a process while a transaction of its is open."""

    def is_stopped_within() -> bool:
        assert process.poll() is None
        if not is_within(broker, name):
            return False
        os.kill(process.pid, signal.SIGSTOP)
        if is_within(broker, name):
            return True
        os.kill(process.pid, signal.SIGCONT)
        return False

    wait_for("a transaction", is_stopped_within)


def test_a_process_that_wakes_up_does_not_fence_its_heir(broker: Broker, tmp_path: Path) -> None:
    """
    The first one is stopped within a transaction for longer than Kafka lets that be open. What it
    is told then looks as if only its time was over.
    """
    name = tmp_path.name
    broker.make_topic(name, 3)
    log = stores.write(tmp_path / "store", stores.messages(60_000, (name,), random.Random(10)))
    first = start(tmp_path, "out-a", broker, log.end)
    processes = [first]
    try:
        stop_within(broker, name, first)
        wait_for("its end by Kafka", lambda: not is_within(broker, name))
        second = start(tmp_path, "out-b", broker, log.end)
        processes.append(second)
        wait_for("the second one", lambda: is_within(broker, name) or second.poll() is not None)
        os.kill(first.pid, signal.SIGCONT)
        wait_for("an end", lambda: all(each.poll() is not None for each in processes))
    finally:
        end_all(processes)

    require_later_won(tmp_path, first, second)
    assert stores.by_queue(stores.got(broker, name)) == stores.in_log(log)


def test_a_process_that_slept_as_it_began_does_not_fence_its_heir(
    broker: Broker, tmp_path: Path
) -> None:
    """
    The first one is stopped before its claim is committed, and Kafka ends that. When it wakes up a
    later one has claimed; what that is still to send comes from that one.
    """
    name = tmp_path.name
    broker.make_topic(name, 3)
    found = list(stores.messages(2000, (name,), random.Random(10)))
    log = stores.write(tmp_path / "store", found)
    stores.write(tmp_path / "store", found[:1000])
    first = start(tmp_path, "out-a", broker, log.end, ("-c", STOPS))
    processes = [first]
    try:
        wait_for("the first one", lambda: is_stopped(first))
        second = start(tmp_path, "out-b", broker, log.end)
        processes.append(second)
        wait_for("half of it", lambda: len(stores.got(broker, name)) == 1000)
        os.kill(first.pid, signal.SIGCONT)
        wait_for("an end", lambda: first.poll() is not None or second.poll() is not None)
        stores.write(tmp_path / "store", found)
        wait_for("both ends", lambda: all(each.poll() is not None for each in processes))
    finally:
        end_all(processes)

    require_later_won(tmp_path, first, second)
    assert stores.by_queue(stores.got(broker, name)) == stores.in_log(log)


def test_a_process_that_slept_after_a_refusal_does_not_send_again(
    broker: Broker, tmp_path: Path
) -> None:
    """
    The first one is stopped as Kafka has refused a batch. A later one has sent all when it wakes
    up: it ends, and what it had begun with does not come a second time.
    """
    name = tmp_path.name
    broker.make_topic(name, 3, max_message_bytes="1500")
    found = list(stores.messages(1000, (name,), random.Random(10)))
    log = stores.write(tmp_path / "store", found)
    stores.write(tmp_path / "store", found[:500])
    # Kafka is not to end a transaction for its age here.
    patient = "transaction_timeout_seconds=60"
    first = start(tmp_path, "out-a", broker, log.end, ("-c", STOPS_AT_A_REFUSAL), (patient,))
    processes = [first]
    try:
        wait_for("the first one", lambda: is_stopped(first))
        second = start(tmp_path, "out-b", broker, log.end, more=(patient, "batch_bytes=1000"))
        processes.append(second)
        wait_for("half of it", lambda: len(stores.got(broker, name)) == 500)
        os.kill(first.pid, signal.SIGCONT)
        wait_for("an end", lambda: first.poll() is not None or second.poll() is not None)
        stores.write(tmp_path / "store", found)
        wait_for("both ends", lambda: all(each.poll() is not None for each in processes))
    finally:
        end_all(processes)

    assert stores.by_queue(stores.got(broker, name)) == stores.in_log(log)
    require_later_won(tmp_path, first, second)


def test_a_process_that_slept_before_it_connected_does_not_fence_its_heir(
    broker: Broker, tmp_path: Path
) -> None:
    """
    The first one is stopped before it has spoken to Kafka at all. The later one sends while the
    first one wakes up, and to its end.
    """
    name = tmp_path.name
    broker.make_topic(name, 3)
    found = list(stores.messages(4000, (name,), random.Random(10)))
    count = 1000
    log = stores.write(tmp_path / "store", found[:count])
    first = start(tmp_path, "out-a", broker, 1 << 40, ("-c", STOPS_AT_ONCE))
    processes = [first]
    try:
        wait_for("the first one", lambda: is_stopped(first))
        second = start(tmp_path, "out-b", broker, 1 << 40)
        processes.append(second)
        wait_for("the second one", lambda: len(stores.got(broker, name)) == 1000)
        # As late as a job has to be for its successor to have claimed.
        time.sleep(6)
        os.kill(first.pid, signal.SIGCONT)
        while first.poll() is None and second.poll() is None and count < len(found):
            count += 50
            log = stores.write(tmp_path / "store", found[:count])
            time.sleep(1)
        said = [(tmp_path / f"out-{name}.log").read_text() for name in "ab"]
        assert second.poll() is None, said[1][-2000:]
        assert first.poll() is not None
        assert "another process writes with this store's transactional id" in said[0]
        # None of its transactions was ended by the one that woke up.
        assert "trying again" not in said[1]
        wait_for("all", lambda: len(stores.got(broker, name)) >= count)
    finally:
        end_all(processes)

    assert stores.by_queue(stores.got(broker, name)) == stores.in_log(log)


def send_all(sink: KafkaSink, extent: Extent) -> None:
    """Connect, and send all that is dispatched."""
    sink.open(extent)
    while sink.send(extent) is not None:
        pass


class TestTwoSinks:
    """What two processes may do at one moment, done in that order by two ways of one process."""

    @pytest.fixture
    def opened(self, broker: Broker, tmp_path: Path) -> Any:
        """Return a log, how far it is dispatched, and what makes a way to Kafka."""
        name = tmp_path.name
        broker.make_topic(name, 3, max_message_bytes="1500")
        log = stores.write(tmp_path / "store", stores.messages(500, (name,), random.Random(10)))
        sinks = []

        def opened(**settings: Any) -> KafkaSink:
            given = {"name": name, "batch_bytes": 1000, **settings}
            made = stores.config(tmp_path / "store", tmp_path / "out", broker, **given)
            assert made.kafka is not None
            sinks.append(KafkaSink(made.kafka, {}, given["name"], made.path, made.settings))
            return sinks[-1]

        yield log, Extent(log.end, None), opened
        for sink in sinks:
            sink.close()
            sink.close_log()

    def test_a_later_one_may_go_on_between_the_look_and_the_connection(
        self, broker: Broker, tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Kafka lets in the earlier one, which has connected last; it sees whose position it finds,
        and ends.
        """
        log, extent, make = opened
        first, second = make(), make()
        first.open(extent)
        first.close()
        look = first._opening.ownership.look_for_heir

        def look_too_early() -> None:
            look()
            second.open(extent)

        monkeypatch.setattr(first._opening.ownership, "look_for_heir", look_too_early)
        with pytest.raises(FencedError, match="has begun later"):
            first.open(extent)
        second.close()
        second.open(extent)
        while second.send(extent) is not None:
            pass

        assert stores.by_queue(stores.got(broker, tmp_path.name)) == stores.in_log(log)

    def test_a_later_one_may_claim_before_the_earlier_one_has_read(
        self, broker: Broker, tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Both begin for the first time, and the later one connects last. What the earlier one reads
        then is not its predecessor's: it does not take the store back.
        """
        log, extent, make = opened
        monkeypatch.setattr(ownership, "_DOUBT_SECONDS", 0.1)
        first, second = make(), make()
        partitions = first._sender.topics.progress_partitions

        def partitions_late(client: Client) -> int:
            second.open(extent)
            return partitions(client)

        with monkeypatch.context() as patch:
            patch.setattr(first._sender.topics, "progress_partitions", partitions_late)
            with pytest.raises(EndedError):
                first.open(extent)
        first.close()
        with pytest.raises(FencedError, match="has begun later"):
            first.open(extent)
        while second.send(extent) is not None:
            pass

        assert stores.by_queue(stores.got(broker, tmp_path.name)) == stores.in_log(log)

    def test_an_earlier_one_may_send_while_a_later_one_goes_around_a_refusal(
        self, broker: Broker, tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        The later one is not shut out by that, and sends nothing again.
        """
        log, extent, make = opened
        monkeypatch.setattr(ownership, "_DOUBT_SECONDS", 0.1)
        earlier, later = make(), make(batch_bytes=2048)
        # It has slept since it first wanted to connect.
        earlier._opening.ownership.began = int(time.time() * 1000) - 60_000
        earlier._opening.ownership.first_tried = time.monotonic() - 60
        learn = later._sender.refusals.learn
        refused = []

        def learn_late(error: RefusedError) -> None:
            if not refused:
                earlier.open(extent)
                while earlier.send(extent) is not None:
                    pass
                earlier.close()
            refused.append(error)
            learn(error)

        monkeypatch.setattr(later._sender.refusals, "learn", learn_late)
        later.open(extent)
        while later.send(extent) is not None:
            pass

        assert refused
        assert later.position is not None
        assert later.position.end == log.end
        assert stores.by_queue(stores.got(broker, tmp_path.name)) == stores.in_log(log)

    @pytest.mark.parametrize("on_rename", ["stop", "continue"])
    def test_one_may_take_over_a_name_while_another_one_looks_by_the_log(
        self,
        broker: Broker,
        tmp_path: Path,
        opened: Any,
        monkeypatch: pytest.MonkeyPatch,
        on_rename: str,
    ) -> None:
        """
        Both begin under a new name, and the one that connects last finds nothing of its own. The
        other one takes the old name's position over before that one looks by the log: it is found,
        and nothing is sent again.
        """
        log, extent, make = opened
        first = make()
        send_all(first, extent)
        first.close()
        new = f"new-{tmp_path.name}"
        other = make(name=new, on_rename="continue")
        last = make(name=new, on_rename=on_rename)
        take_over, find = takeover.take_over, renamed.find

        def connect_last(*taken: Any) -> None:
            def find_late(*asked: Any) -> Any:
                take_over(*taken)
                return find(*asked)

            monkeypatch.setattr(renamed, "find", find_late)
            send_all(last, extent)

        monkeypatch.setattr(takeover, "take_over", connect_last)
        with pytest.raises(EndedError):
            other.open(extent)

        assert last.position is not None
        assert last.position.end == log.end
        assert stores.by_queue(stores.got(broker, tmp_path.name)) == stores.in_log(log)

    def test_one_may_take_over_a_name_and_send_before_another_one_does(
        self, broker: Broker, tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Both have found the old name's position. The one that was slower does not set back the
        position under the new name.
        """
        log, extent, make = opened
        first = make()
        send_all(first, Extent(log.places[200].position, None))
        first.close()
        new = {"name": f"new-{tmp_path.name}", "on_rename": "continue"}
        slow, fast, heir = make(**new), make(**new), make(**new)
        take_over = takeover.take_over

        def take_over_late(*taken: Any) -> None:
            monkeypatch.setattr(takeover, "take_over", take_over)
            send_all(fast, extent)
            take_over(*taken)

        monkeypatch.setattr(takeover, "take_over", take_over_late)
        with pytest.raises(EndedError):
            slow.open(extent)
        send_all(heir, extent)

        assert stores.by_queue(stores.got(broker, tmp_path.name)) == stores.in_log(log)

    def test_one_does_not_take_over_what_has_moved_to_another_name(
        self, broker: Broker, tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Two are given two new names at one moment. The slower one continues only after the faster one.
        """
        log, extent, make = opened
        first = make()
        send_all(first, Extent(log.places[200].position, None))
        first.close()
        slow = make(name=f"slow-{tmp_path.name}", on_rename="continue")
        # However slow the machine is, it has not waited so long that the other one counts as later.
        slow._opening.ownership.began, slow._opening.ownership.first_tried = (
            int(time.time() * 1000),
            time.monotonic() + 600,
        )
        fast = make(name=f"fast-{tmp_path.name}", on_rename="continue")
        take_over = takeover.take_over

        def take_over_late(*taken: Any) -> None:
            monkeypatch.setattr(takeover, "take_over", take_over)
            send_all(fast, extent)
            take_over(*taken)

        monkeypatch.setattr(takeover, "take_over", take_over_late)
        with pytest.raises(AwayError, match=f"taken over by .* under reput-fast-{tmp_path.name}"):
            slow.open(extent)
        send_all(slow, extent)

        assert stores.by_queue(stores.got(broker, tmp_path.name)) == stores.in_log(log)

    @pytest.mark.parametrize("wakes", ["before its claim", "after it has sent"])
    def test_an_earlier_one_does_not_take_over_from_a_later_one_of_another_name(
        self,
        broker: Broker,
        tmp_path: Path,
        opened: Any,
        monkeypatch: pytest.MonkeyPatch,
        wakes: str,
    ) -> None:
        """
        on_rename = "continue" is left on in both, and the earlier one of the old name wakes up when
        the later one has the position, or has it and has not claimed it yet.
        """
        log, extent, make = opened
        monkeypatch.setattr(ownership, "_DOUBT_SECONDS", 0.1)
        first = make()
        send_all(first, Extent(log.places[200].position, None))
        first.close()
        now = int(time.time() * 1000)
        earlier = make(on_rename="continue")
        earlier._opening.ownership.began, earlier._opening.ownership.first_tried = (
            now + 1000,
            time.monotonic() - 60,
        )
        later = make(name=f"new-{tmp_path.name}", on_rename="continue")
        later._opening.ownership.began, later._opening.ownership.first_tried = (
            now + 60_000,
            time.monotonic(),
        )
        claim = later._claim

        def claim_late(position: Any) -> None:
            monkeypatch.setattr(later, "_claim", claim)
            earlier.open(Extent(log.places[300].position, None))
            claim(position)

        if wakes == "before its claim":
            monkeypatch.setattr(later, "_claim", claim_late)
            with pytest.raises(EndedError):
                later.open(extent)
            earlier.close()
        send_all(later, Extent(log.places[400].position, None))
        with pytest.raises(FencedError, match="begun later"):
            earlier.open(extent)
        while later.send(extent) is not None:
            pass

        assert later.position is not None
        assert later.position.end == log.end
        assert stores.by_queue(stores.got(broker, tmp_path.name)) == stores.in_log(log)


def test_a_predecessor_whose_clock_was_ahead_is_no_heir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The next job starts while Kafka is away, with the right clock. What it finds when Kafka comes
    back is older than itself, whatever it says, and it continues there.
    """
    broker = Broker(tmp_path / "kafka")
    broker.start()
    try:
        broker.make_topic("ahead", 1)
        found = list(stores.messages(200, ("ahead",), random.Random(10)))
        stores.write(tmp_path / "store", found[:100])
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, name="ahead")
        now = time.time
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: now() + 600)
            stores.send(made)
        broker.kill_at_rest("ahead", "reput-progress")
        log = stores.write(tmp_path / "store", found)
        dispatcher = StoreDispatcher(made)
        try:
            dispatcher.dispatch(log.end)
            # So long that the claim of a later job could be there by then.
            time.sleep(6)
            broker.start()
            stores.go_on(dispatcher)
        finally:
            dispatcher.close()
        assert stores.by_queue(stores.got(broker, "ahead")) == stores.in_log(log)
    finally:
        broker.stop()


def test_a_process_whose_transaction_took_too_long_goes_on(broker: Broker, tmp_path: Path) -> None:
    """
    Nobody else has written: then it was only its time, and nobody is fenced.
    """
    name = tmp_path.name
    broker.make_topic(name, 3)
    log = stores.write(tmp_path / "store", stores.messages(60_000, (name,), random.Random(3)))
    first = start(tmp_path, "out-a", broker, log.end)
    try:
        stop_within(broker, name, first)
        wait_for("its end by Kafka", lambda: not is_within(broker, name))
        os.kill(first.pid, signal.SIGCONT)
        wait_for("its end", lambda: first.poll() is not None)
    finally:
        if first.poll() is None:
            first.kill()
            first.wait()

    assert first.returncode == 0, (tmp_path / "out-a.log").read_text()[-2000:]
    assert stores.by_queue(stores.got(broker, name)) == stores.in_log(log)
