"""A real broker on our consume queues, index and checkpoint; a real client on that broker."""

from __future__ import annotations

import argparse
import collections
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq import names
from tests.cluster import cluster, evidence, processes, soak
from tests.cluster.cluster import Client, Cluster
from tests.cluster.processes import ClusterError
from tests.cluster.soak import Plan, Result

if TYPE_CHECKING:
    from collections.abc import Mapping

_OURS = (*names.DISPATCHED, "checkpoint")
_OF_ONE_RUN = ("abort", "abort.bak", "lock")
_QUIET = {
    # Nothing may come into the log while it is compared.
    "transactionTimeOut": "86400000",
    "transactionCheckInterval": "86400000",
}
_LINE = re.compile(r"\S+ \S+ (INFO|WARN|ERROR) +(.*)")
# What 5.5.0 logs when it loads a clean store of its own, serves it and stops: the zeros past the
# log's end, "truncate" where queues and log end at the same byte, and what it does without. The last
# two are of clients that leave while a pull of theirs is still being answered: their group is gone,
# or their connection.
_USUAL = re.compile(
    r"found a illegal magic code 0x0$"
    r"|maxPhyOffsetOfConsumeQueue\((\d+)\) >= processOffset\(\1\), truncate dirty logic files"
    r"|Load default .*[Ss]ervice|No resource file with name"
    r"|RocketmqTransaction \S+ - (No new message|The miss op offset=.* is NO_NEW_MSG)"
    r"|shutdown\.?$"
    r"|/abort delete OK"
    r"|PullMessageThread_\d+ - the consumer's group info not exist, group:"
    r"|rejectedExecution PullMessageThread_\d+ - Failed to submit a listener notification task\."
)
_CUT = re.compile(r"(?i)truncat|destroy|delet|redo|rebuild")
_LOADED_SECONDS = 120.0
_CLIENT_SECONDS = 600.0


def run(
    live: Path, directory: Path, properties: Mapping[str, str], result: Result, sample: int = 200
) -> None:
    """Lets a broker take over what a soak has left, and notes what came of it.

    Args:
        live: the directory of a soak without kills, with the broker's store and our output.
        directory: to work in, empty.
        properties: with which the broker wrote.
        result: for figures and faults.
        sample: how many messages are asked for by key and by id.

    Raises:
        ClusterError: the broker or the client did not come to an end.
    """
    store, output = directory / "store", live / "output"
    hand_over(live / "store", output, store)
    given = _hashes(store)
    with cluster.network() as prefix:
        rocketmq = Cluster(directory, {**properties, **_QUIET}, prefix, store=store)
        try:
            client = rocketmq.client(
                "takeover",
                "TakeOver",
                conf=rocketmq.conf,
                store=store,
                sample=sample,
                stdin=subprocess.PIPE,
            )
            processes.wait_until(
                lambda: bool(client.last()), "the broker loads", client.process, _LOADED_SECONDS
            )
            result.expect("files changed by loading", _changes(given, _hashes(store)))
            report = _served(client)
        finally:
            rocketmq.close()
    _note(report, result)
    _compare_after(store, output, result)
    result.expect("unusual lines of log", unusual(directory / "takeover-logs"))
    if (store / "abort").exists():
        result.faults.append("the broker did not end in order")


def hand_over(store: Path, output: Path, target: Path) -> None:
    """Copies a store, with our files in the place of its own."""
    shutil.copytree(store, target, ignore=shutil.ignore_patterns(*_OF_ONE_RUN, *_OURS))
    for name in _OURS:
        ours = output / name
        if ours.is_dir():
            shutil.copytree(ours, target / name)
        elif ours.exists():
            shutil.copy(ours, target / name)


def _served(client: Client) -> dict[str, Any]:
    client.go()
    client.release()
    report = client.finish(_CLIENT_SECONDS)
    if not report.get("done"):
        raise ClusterError(f"no report: see {client.output}")
    return report


def _note(report: Mapping[str, Any], result: Result) -> None:
    result.figures["records in the log"] = report["records"]
    result.figures["messages for clients"] = report["expected"]
    result.figures["messages consumed"] = report["consumed"]
    result.figures["records pulled from system topics"] = sum(report["pulled"].values())
    asked = {"id": "asked", "key": "asked", "offset": "asked", "tag": "tags_asked"}
    for name, number in asked.items():
        result.figures[f"found by {name}"] = f"{report[f'found_by_{name}']} of {report[number]}"
    result.expect("consumed twice", ["a message"] * report["duplicates"])
    result.expect("not consumed, not found, not right", report["wrong_first"])
    if report["expected"] != report["consumed"] or not report["asked"]:
        result.faults.append("consumed is not what is in the log")
    if report["log_end"] != report["log_end_after"]:
        result.faults.append("the log grew under the consumers")


def _compare_after(store: Path, output: Path, result: Result) -> None:
    """The broker served and stopped: our files have to be what they were."""
    queues = evidence.compare_queues(store, output, {})
    stale = ["entries past the end of ours"] if queues.stale else []
    result.expect("queues changed by serving", [*queues.differences, *stale])
    result.expect("index files changed by serving", evidence.compare_index(store, output))


def _hashes(store: Path) -> dict[str, str]:
    return {
        str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest()
        for name in ("commitlog", *names.DISPATCHED)
        for path in (store / name).rglob("*")
        if path.is_file()
    }


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [
        f"{name}: {'made' if name not in before else 'gone' if name not in after else 'changed'}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def unusual(logs: Path) -> list[str]:
    """What a broker that loaded, served and stopped logged beyond what it always does."""
    found: collections.Counter[str] = collections.Counter()
    for name in ("store.log", "broker.log"):
        for line in (logs / name).read_text("utf-8", "replace").splitlines():
            match = _LINE.match(line)
            if match and _counts(name, match[1], match[2]):
                found[re.sub(r"[0-9]+", "N", f"{match[1]} {match[2]}")] += 1
    return [f"{count} x {line}" for line, count in found.items()]


def _counts(name: str, level: str, line: str) -> bool:
    if _USUAL.search(line):
        return False
    if level == "ERROR":
        return True
    # The clients are in the same process; their warnings are not the broker's.
    is_brokers = name == "store.log" or re.match(r"Rocketmq(?!Remoting|Tools)", line) is not None
    return is_brokers and (level == "WARN" or _CUT.search(line) is not None)


def main() -> int:
    """Reads the arguments, runs, and prints what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.takeover", description=__doc__)
    parser.add_argument("--seconds", type=int, default=10, help="of load before it (10)")
    parser.add_argument("--rate", type=int, default=2000, help="messages a second (2000)")
    parser.add_argument("--sample", type=int, default=200, help="messages asked for (200)")
    parser.add_argument("--large-files", action="store_true", help="file sizes of real brokers")
    parser.add_argument("--directory", type=Path, help="work below it and leave everything there")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    directory = soak.directory_of(parser, arguments.directory)
    files = cluster.LARGE_FILES if arguments.large_files else cluster.SMALL_FILES
    plan = Plan(seconds=arguments.seconds, rate=arguments.rate, files=files)
    try:
        result = soak.run(plan, directory / "live")
        run(directory / "live", directory / "taken", files, result, arguments.sample)
    except ClusterError as error:
        print(f"takeover: {error}; everything is left in {directory}", file=sys.stderr)
        return 2
    return soak.end(result, directory, keep=arguments.directory is not None, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
