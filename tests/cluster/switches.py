"""Our job on the stores of a master and its slave, whose roles change again and again."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster import cluster, soak
from tests.cluster.processes import ClusterError
from tests.cluster.replicas import Pair, Replica
from tests.cluster.switch_job import (
    Job,
    Rebuild,
    Report,
    compare_at_rest,
    compare_closed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.cluster.switch_job import Told

_PROPERTIES = {
    # So small that cuts go over the ends of files.
    "mappedFileSizeCommitLog": str(256 << 10),
    "mappedFileSizeConsumeQueue": str(400 * 20),
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "maxMessageSize": str(64 << 10),
    "haSendHeartbeatInterval": "500",
    "fileReservedTime": "876000",
    "diskMaxUsedSpaceRatio": "95",
}
_START_SECONDS = 300.0
_BACKLOG = 1500
_LET_IN = 3
_LET_IN_SECONDS = 3.0


@dataclass
class Result:
    """What came of it.

    Attributes:
        kinds: switches by what happened.
        figures: by name, in the order in which they are shown.
        faults: what is not as it should be; none means proven.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    figures: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


class Run:
    """Switches roles, kills what has to be killed, and compares when all is at rest."""

    def __init__(
        self, directory: Path, prefix: list[str], *, seed: int, whole: bool, job_kills: float
    ) -> None:
        """Start nothing yet.

        Args:
            directory: to work in, empty.
            prefix: as `cluster.network` gives it.
            seed: of all that is random but time.
            whole: the whole job follows; else the dispatcher alone.
            job_kills: how likely the job is killed at a switch.
        """
        self._pick = random.Random(seed)
        self._directory = directory
        self._job_kills = job_kills
        conf = directory / "broker.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in _PROPERTIES.items()))
        replicas = [
            Replica(name, number, directory, prefix, conf) for number, name in enumerate("ab", 1)
        ]
        self.pair = Pair(*replicas)
        self.job = Job(directory, conf, ["a", "b"], whole=whole)
        self.report = Report()
        self.result = Result()
        self.killed = 0
        self.begun_again = 0
        self.end = 0
        self._layout = 0
        self._scenarios: dict[str, Callable[[], None]] = {
            "master killed": self._killed,
            "master killed while it stores": self._killed_in_a_put,
            "slave frozen, master killed": self._frozen,
            "master demoted": self._demoted,
            "in order": self._in_order,
            "both restarted": self._restarted,
            "slave with a part of a backlog": self._backlog,
            "three quickly": self._quickly,
        }
        self._weights = (4, 2, 2, 4, 1, 2, 2, 2)

    def start(self) -> None:
        """Start the brokers, then the job: it wants a log to begin with."""
        for replica in self.pair.both:
            replica.start()
        self.pair.elect(self.pair.master)
        self.pair.follow()
        self._put(50)
        self.pair.settle()
        self._start_job()

    def switch(self, number: int) -> None:
        """Change the roles, at least once."""
        kind = self._pick.choices(list(self._scenarios), self._weights)[0]
        # A master whose epoch has no message that the slave has too cannot be told from the next
        # one: RocketMQ keeps no epoch that begins where the one before does.
        self._put(self._pick.randint(1, 40))
        self.pair.settle()
        before = self.pair.switches
        kills = self._pick.random() < self._job_kills
        if kills and self._pick.random() < 0.5:
            self._kill_job()
        self._scenarios[kind]()
        if kills and self.job.code is None:
            self._kill_job()
        if self.job.code is not None:
            self._job_is_gone(number, kind)
        self.result.kinds[kind] += self.pair.switches - before

    def check(self, number: int) -> None:
        """Compare both, at rest."""
        self._put(self._pick.randint(1, 5))
        end = self.pair.settle()
        if self.job.code is not None:
            self._start_job()
        rebuilds = [Rebuild(self.job.stores[replica.name]) for replica in self.pair.both]
        try:
            self._let_in(rebuilds, end)
            for replica, rebuild in zip(self.pair.both, rebuilds, strict=True):
                said = replica.ask("queues")["queues"]
                self.report.faults.clear()
                acks = self.pair.acks
                if not compare_at_rest(self.job, rebuild, said, self.end, acks, self.report):
                    where = f"store {replica.name} after switch {number}"
                    self.result.faults += [f"{where}: {f}" for f in self.report.faults[:3]]
                    self._begin_again(replica, number)
        finally:
            for rebuild in rebuilds:
                rebuild.close()

    def _let_in(self, rebuilds: Sequence[Rebuild], end: int) -> None:
        """Let a few messages come, so that no record is waited for any longer.

        A record that is not the next of its queue is waited for until another one comes after it,
        and RocketMQ's masters leave queue offsets out. These are the next ones of a queue of their
        own, and never cut.
        """
        for attempt in range(_LET_IN):
            deadline = time.monotonic() + _LET_IN_SECONDS
            while not self.job.is_at(end) and time.monotonic() < deadline:
                time.sleep(0.05)
            for rebuild in rebuilds:
                rebuild.go_on()
            if attempt == 0:
                self.report.waited += not self.job.is_at(end)
            self._put(1, kind="last")
            end = self.end = self.pair.settle()
        for rebuild in rebuilds:
            rebuild.go_on()

    def finish(self) -> None:
        """End all in order and compare once more: nothing is open then."""
        for replica in self.pair.both:
            replica.close()
        if self.job.code is not None:
            self._start_job()
        self.report.faults.clear()
        compare_closed(self.job, _PROPERTIES, self.report)
        self.result.faults += self.report.faults

    def close(self) -> None:
        """End whatever still runs."""
        self.job.close()
        for replica in self.pair.both:
            replica.end()

    def _put(self, count: int, *, kind: str = "", layout: int = 0) -> None:
        self.pair.put(**self._messages(count, kind=kind, layout=layout))

    def _messages(self, count: int, *, kind: str = "", layout: int = 0) -> dict[str, object]:
        self._layout = layout or self._pick.randint(1, 1 << 30)
        self._kind = kind or self._pick.choice(("same", "mixed"))
        content = self._pick.randint(1, 1 << 30)
        return {"count": count, "layout": self._layout, "content": content, "kind": self._kind}

    def _put_others(self, lost: int) -> None:
        """Store messages where others were, `lost` ones: fewer, as many, more; as long, or not."""
        pick = self._pick
        layout, kind = self._layout, self._kind
        count = pick.choice((1, max(1, lost // 3), max(1, lost - 1), lost, lost + 20))
        if pick.random() < 0.6:
            # Every record is as long as the one that was there, and in the same queue.
            self._put(count, kind=kind, layout=layout)
        else:
            self._put(count)

    def _rejoin(self, lost: int) -> None:
        """Let the old master follow, before or after the new one stores messages."""
        if self._pick.random() < 0.5:
            self._put_others(lost)
            self.pair.follow()
        else:
            self.pair.follow()
            time.sleep(self._pick.uniform(0, 1.5))
            self._put_others(lost)

    def _part(self) -> int:
        """Let the master store messages that the slave does not get; return how many."""
        self.pair.slave.ask("detach")
        lost = self._pick.choice((3, 30, 200))
        self._put(lost)
        # Time for the job to dispatch them, or none.
        time.sleep(self._pick.choice((0, 0.3, 1.5)))
        return lost

    def _killed(self) -> None:
        lost = self._part()
        self.pair.master.kill()
        self.pair.elect(self.pair.slave)
        self.pair.slave.start()
        self._rejoin(lost)

    def _killed_in_a_put(self) -> None:
        self.pair.slave.ask("detach")
        self.pair.master.send("put", **self._messages(5000))
        time.sleep(self._pick.uniform(0.01, 0.5))
        self.pair.master.kill()
        self.pair.elect(self.pair.slave)
        self.pair.slave.start()
        self._rejoin(self._pick.choice((10, 100)))

    def _frozen(self) -> None:
        """It gets what was on its way when it continues, or a part of it."""
        self.pair.slave.freeze()
        lost = self._pick.choice((3, 30, 200))
        self._put(lost)
        self.pair.master.kill()
        self.pair.slave.thaw()
        self.pair.elect(self.pair.slave)
        self.pair.slave.start()
        self._rejoin(lost)

    def _demoted(self) -> None:
        """Nobody is killed: the controller elects another one, and the master has to follow."""
        lost = self._part()
        self.pair.elect(self.pair.slave)
        self._rejoin(lost)

    def _in_order(self) -> None:
        self.pair.slave.ask("detach")
        self.pair.elect(self.pair.slave)
        self._rejoin(self._pick.choice((3, 30)))

    def _restarted(self) -> None:
        lost = self._part()
        ends = [replica.state()["max"] for replica in self.pair.both]
        for replica in self.pair.both:
            if self._pick.random() < 0.5:
                replica.close()
            else:
                replica.kill()
        for replica, end in zip(self.pair.both, ends, strict=True):
            self.pair.restart(replica, end)
        self.pair.elect(self.pair.slave)
        self._rejoin(lost)

    def _backlog(self) -> None:
        """The slave has a part of it, its last record perhaps not whole."""
        slave = self.pair.slave
        slave.ask("detach")
        begin = slave.state()["max"]
        self._put(_BACKLOG)
        self.pair.follow()
        end = time.monotonic() + _START_SECONDS
        while slave.state()["max"] == begin and time.monotonic() < end:
            time.sleep(0.001)
        self.pair.master.kill()
        self.pair.elect(slave)
        self.pair.slave.start()
        self._rejoin(_BACKLOG // 10)

    def _quickly(self) -> None:
        for _ in range(3):
            begin = self.pair.master.state()["max"]
            self._put(self._pick.randint(1, 5))
            end = time.monotonic() + _START_SECONDS
            while self.pair.slave.state()["max"] <= begin and time.monotonic() < end:
                time.sleep(0.01)
            self.pair.slave.ask("detach")
            lost = self._pick.randint(1, 10)
            self._put(lost)
            self.pair.elect(self.pair.slave)
            self._rejoin(lost)

    def _start_job(self) -> None:
        self.job.start()
        end = time.monotonic() + _START_SECONDS
        while not self.job.follows():
            if self.job.code is not None:
                return
            if time.monotonic() > end:
                raise ClusterError(f"the job does not start: see {self.job.log}")
            time.sleep(0.1)

    def _kill_job(self) -> None:
        self.killed += 1
        self.job.kill()
        if self._pick.random() < 0.5:
            # Away for a while, or for the whole switch.
            self.job.start()

    def _job_is_gone(self, number: int, kind: str) -> None:
        if self.job.code == -9:
            self._start_job()
            return
        self.result.faults.append(
            f"after switch {number} ({kind}) the job ended with {self.job.code}: {self.job.last}"
        )
        self._start_job()
        time.sleep(2)
        if self.job.code is not None:
            self.result.faults.append(f"and again: {self.job.last}")
            for replica in self.pair.both:
                self._begin_again(replica, number)

    def _begin_again(self, replica: Replica, number: int) -> None:
        """Keep the output that is wrong; have the job make another one, so that we see more."""
        self.begun_again += 1
        self.job.kill()
        output = self.job.stores[replica.name].output
        if output.exists():
            kept = self._directory / f"wrong-{self.begun_again}-after-{number}-{replica.name}"
            shutil.copytree(replica.store, kept / "store", dirs_exist_ok=True)
            output.rename(kept / "output")
        self._start_job()


def noticed(run: Run) -> list[float]:
    """Return how many seconds after a log was written over after a cut the job said so.

    Only cuts of what it had dispatched, that came when it was at work: one that is killed looks when
    it starts. A cut that it says before anything is written over it is not among them either.
    """
    found = []
    for replica in run.pair.both:
        said = [told for told in run.job.told() if told.store == replica.name]
        events = [event for event in replica.events if event["event"] in ("cut", "over")]
        for event, following in zip(events, [*events[1:], {"at": float("inf")}], strict=True):
            if event["event"] == "over":
                found += _late(said, event["to"], event["at"] / 1000, following["at"] / 1000)
    return found


def _late(said: Sequence[Told], cut: int, over: float, until: float) -> list[float]:
    """Return how late the job said one cut; nothing if it had said so, or need not say so.

    Args:
        said: what it said of that store.
        cut: physical offset from which on the log is another one.
        over: when the first byte of that was written, in Unix seconds.
        until: when the log was cut again. What is said after that may be of either.
    """
    # Both clocks are the same one, cut to milliseconds.
    over -= 0.002
    cuts = [told for told in said if told.end is None and told.at >= over and told.since <= over]
    in_time = [told.at for told in cuts if told.at < until]
    if in_time:
        return [in_time[0] - over]
    before = [told for told in said if told.at < over]
    if not before or before[-1].end is None or before[-1].end <= cut:
        return []
    return [told.at - over for told in cuts[:1] if told.since == before[-1].since]


def run(
    switches: int,
    directory: Path,
    *,
    seed: int = 1,
    whole: bool = True,
    every: int = 5,
    job_kills: float = 0.15,
) -> Result:
    """Switch roles this often, below an empty directory, and compare after every few.

    Raises:
        ClusterError: a broker ended that should not have, or took too long.
    """
    cluster.build()
    directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with cluster.network() as prefix:
        one = Run(directory, prefix, seed=seed, whole=whole, job_kills=job_kills)
        try:
            one.start()
            checked = 0
            while one.pair.switches < switches:
                one.switch(one.pair.switches + 1)
                if one.pair.switches - checked >= every or one.pair.switches >= switches:
                    checked = one.pair.switches
                    one.check(checked)
            one.finish()
        finally:
            one.close()
    _note(one, began)
    return one.result


def _note(one: Run, began: float) -> None:
    cuts = [e for r in one.pair.both for e in r.events if e["event"] == "cut"]
    times = noticed(one)
    one.result.figures.update(
        {
            "switches": one.pair.switches,
            **{f"switches, {kind}": count for kind, count in sorted(one.result.kinds.items())},
            "elections that hung": one.pair.stuck,
            "restarts that brought back what was cut": one.pair.brought_back,
            "logs cut": len(cuts),
            "bytes cut": sum(cut["from"] - cut["to"] for cut in cuts),
            "messages acknowledged": one.pair.acknowledged,
            "of these lost by the brokers": one.pair.lost,
            "bytes of log": one.end,
            "job killed": one.killed,
            "job started": one.job.starts,
            "outputs compared": one.report.compared,
            "entries compared": one.report.entries,
            "queues as the broker's": one.report.same,
            "queues of brokers that their logs contradict": one.report.spoilt,
            "entries of records gone, the brokers'": one.report.gone,
            "records without entry, the brokers'": one.report.lacking,
            "messages not at the place told": one.report.elsewhere,
            "rests at which the job waited": one.report.waited,
            "outputs begun again": one.begun_again,
            "cuts that the job followed": sum(told.end is None for told in one.job.told()),
            "cuts timed": len(times),
            "noticed after, median (s)": round(statistics.median(times), 3) if times else None,
            "noticed after, at most (s)": round(max(times), 3) if times else None,
            "seconds": round(time.monotonic() - began),
        }
    )


def main() -> int:
    """Reads the arguments, runs, and prints what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.switches", description=__doc__)
    parser.add_argument("--switches", type=int, default=50, help="of roles (50)")
    parser.add_argument("--seed", type=int, default=1, help="of what is random (1)")
    parser.add_argument("--every", type=int, default=5, help="switches from check to check (5)")
    parser.add_argument(
        "--dispatcher", action="store_true", help="without Spark: the dispatcher alone follows"
    )
    parser.add_argument(
        "--job-kills", type=float, default=0.15, help="how likely a switch kills the job (0.15)"
    )
    parser.add_argument("--directory", type=Path, help="work below it and leave everything there")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    directory = soak.directory_of(parser, arguments.directory)
    try:
        result = run(
            arguments.switches,
            directory,
            seed=arguments.seed,
            whole=not arguments.dispatcher,
            every=arguments.every,
            job_kills=arguments.job_kills,
        )
    except ClusterError as error:
        print(f"switches: {error}; everything is left in {directory}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps({"ok": not result.faults, **result.figures, "faults": result.faults}))
    else:
        for name, value in result.figures.items():
            print(f"{name:48} {value:>12}")
        for fault in result.faults:
            print(f"FAULT {fault}")
        print("proven" if not result.faults else "not proven")
    if result.faults:
        print(f"everything is left in {directory}", file=sys.stderr)
    elif arguments.directory is None:
        shutil.rmtree(directory)
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
