"""Asks a real broker and ours the same, on copies of one store, and compares what they say."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.rocketmq.messageid import offset_id
from reput.stores.query.message_store import MessageStore
from reput.streaming.settings.config import store_config
from tests.cluster.cluster import network
from tests.cluster.processes import ClusterError
from tests.remoting.server.verbs import answers, making, processes, text
from tests.remoting.server.verbs.cases import ADDRESS, Ids, cases

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.remoting.server.verbs.cases import Case
    from tests.remoting.server.verbs.processes import Tools
    from tests.remoting.server.verbs.text import Verdict

HERE = Path(__file__).resolve().parent
VERSIONS = ("5.5.0", "4.9.8")
REAL, OURS = "real", "ours"
_VERBS, _REQUESTS = "verbs of mqadmin", "requests"
# Groups whose members consume all there is, and how long that may take.
_CONSUMING = ("CG1", "CGL", "CGT", "CGS")
_ONLINE = (*_CONSUMING, "GCG", "CGO", "CGU")
# Members commit an offset of their retry topic once their first pull of it has waited for 15 s.
_SECONDS, _STILL_SECONDS = 90.0, 17.0
_EXPORTED = "exported"


class Asked(NamedTuple):
    """What is asked.

    Attributes:
        only: a pattern: only verbs that match; None for all.
        requests: the captured requests as well.
        members: groups have members; without them it takes half the time.
    """

    only: str | None = None
    requests: bool = True
    members: bool = True


class Row(NamedTuple):
    """One line of the table."""

    what: str
    name: str
    verdict: Verdict


class Said(NamedTuple):
    """What one side said: texts by verb and options, and answers in order."""

    texts: dict[tuple[str, ...], str]
    answers: list[dict[str, Any]]


def run(
    version: str, directory: Path, what: Asked, *, fresh: bool = False, reuse: bool = False
) -> list[Row]:
    """Return how each verb and each request compares.

    Args:
        version: of RocketMQ.
        directory: for the store, which is made if it is not there, and for logs.
        what: what is asked.
        fresh: make the store in any case: its delayed messages come due after two hours.
        reuse: ask ours alone, and compare with what the real ones said before.

    Raises:
        ClusterError: something does not start, or our side wrote into the store.
    """
    processes.build(version)
    directory.mkdir(parents=True, exist_ok=True)
    made = directory / "made"
    with network() as prefix:
        if fresh or not (made / "whole").exists():
            making.make(version, made, prefix)
            (made / "whole").touch()
        since = (made / "whole").stat().st_mtime
        asked = cases(_ids(version, made / "store"), version)
        if what.only is not None:
            asked = [each for each in asked if re.search(what.only, " ".join(each.words))]
        sides = (OURS,) if reuse else (REAL, OURS)
        for side in sides:
            _ask(side, version, directory, prefix, asked, what)
        said = {side: _kept(directory, side) for side in (REAL, OURS)}
    return [*_verbs(asked, said, since), *_requests(said, since)]


def _verbs(asked: Sequence[Case], said: dict[str, Said], since: float) -> list[Row]:
    rows = []
    for each in asked:
        ours = said[OURS].texts[each.words]
        if each.writes:
            verdict = text.refused(ours)
        else:
            verdict = text.judge(each.words, said[REAL].texts[each.words], ours, since)
        rows.append(Row(_VERBS, " ".join(each.words), verdict))
    return rows


def _requests(said: dict[str, Said], since: float) -> list[Row]:
    real = {each["name"]: each["answer"] for each in said[REAL].answers}
    rows = []
    for each in said[OURS].answers:
        name, ours = each["name"], each["answer"]
        if each["writes"]:
            verdict = answers.refused(ours)
        else:
            verdict = answers.compare(name, real[name], ours, since)
        rows.append(Row(_REQUESTS, name, verdict))
    return rows


def _ask(
    side: str,
    version: str,
    directory: Path,
    prefix: Sequence[str],
    asked: Sequence[Case],
    what: Asked,
) -> None:
    """Ask one side, and keep what it says. Both have the store at the same place.

    Verbs change what a broker says later: one of 4.9 writes down a pull that was far off. So
    requests are asked after a start of their own.
    """
    asked = [each for each in asked if side == OURS or not each.writes]
    texts: dict[tuple[str, ...], str] = {}
    answered: list[dict[str, Any]] = []
    if asked:
        with _started(side, version, directory, prefix, what) as tools:
            texts = {each.words: _printed(tools, each.words) for each in asked}
    if what.requests:
        output = directory / f"{side}-answers.json"
        with _started(side, version, directory, prefix, what) as tools:
            # Members commit as well, each second.
            tools.do("close")
            writes = "yes" if side == OURS else "no"
            words = ("-m", "tests.remoting.server.verbs.replay", version, writes, str(output))
            subprocess.run([*prefix, sys.executable, *words], check=True, timeout=600)
        answered = json.loads(output.read_text())
    said = [[list(words), said] for words, said in texts.items()]
    (directory / f"{side}.json").write_text(json.dumps({"texts": said, "answers": answered}))


@contextlib.contextmanager
def _started(
    side: str, version: str, directory: Path, prefix: Sequence[str], what: Asked
) -> Iterator[Tools]:
    """Serve a copy of the store to its members, and see that ours has not written into it."""
    store = directory / "store"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(directory / "made" / "store", store)
    shutil.rmtree(directory / side, ignore_errors=True)
    before = _sums(store)
    with processes.tools(version, directory / side / "tools", prefix) as tools:
        start = processes.Real if side == REAL else processes.Ours
        server = start(version, directory / side, store, prefix)
        try:
            _wait_for_broker(tools)
            if what.members:
                _settle(tools)
            yield tools
        finally:
            server.kill()
    if side == OURS and _sums(store) != before:
        raise ClusterError(f"files of the store changed: {_changes(before, _sums(store))}")


def _kept(directory: Path, side: str) -> Said:
    said = json.loads((directory / f"{side}.json").read_text())
    return Said({tuple(words): text for words, text in said["texts"]}, said["answers"])


def _wait_for_broker(tools: Tools) -> None:
    """A broker says that it is there before its name server knows."""
    until = time.monotonic() + _SECONDS
    while "brokerName" not in tools.mqadmin("topicRoute", "-t", "T1"):
        if time.monotonic() > until:
            raise ClusterError("no broker registers at the name server")
        time.sleep(0.2)


def _settle(tools: Tools) -> None:
    """Let the members join, and consume what there is."""
    until = time.monotonic() + _SECONDS
    said = tools.do("online")
    if said:
        raise ClusterError(f"the members did not start: {said}")
    since, reached = time.monotonic(), ""
    for group in _CONSUMING:
        while "Diff Total: 0" not in tools.mqadmin("consumerProgress", "-g", group):
            if time.monotonic() > until:
                raise ClusterError(f"group {group} does not consume all there is")
            time.sleep(0.2)
    while time.monotonic() < since + _STILL_SECONDS:
        now = "".join(tools.mqadmin("consumerProgress", "-g", each) for each in _ONLINE)
        rows = re.sub(r"\d\S+ \S+$|TPS.*", "", now, flags=re.MULTILINE)
        if rows != reached:
            since, reached = time.monotonic(), rows


def _printed(tools: Tools, words: Sequence[str]) -> str:
    """Return what a verb prints, and what it writes into the files that it exports."""
    exported = tools.directory / _EXPORTED
    shutil.rmtree(exported, ignore_errors=True)
    said = tools.mqadmin(*words)
    files = sorted(exported.glob("*")) if exported.exists() else []
    return "\n".join([said, *(f"{each.name}\n{each.read_text()}" for each in files)])


def _ids(version: str, store: Path) -> Ids:
    """Return the ids of messages that are asked for."""
    conf = processes.write_properties(store.parent / "sizes.conf", processes.PROPERTIES)
    family = version.rpartition(".")[0]
    config = store_config(store, None, in_place=True, broker_version=family, broker_conf=conf)
    with MessageStore.open(store, None, config.settings) as reader:

        def record(topic: str, offset: int) -> Any:
            return next(iter(reader.messages(topic, 0, offset)))[1]

        first, large, dead = record("T1", 0), record("T1", 21), record("%DLQ%CGR", 0)
        ids = [offset_id(ADDRESS, each.physical_offset) for each in (first, large)]
        unique = [each.properties["UNIQ_KEY"] for each in (first, dead)]
        return Ids(ids[0], unique[0], ids[1], unique[1])


def _sums(store: Path) -> dict[str, str]:
    files = [each for each in sorted(store.rglob("*")) if each.is_file()]
    return {
        str(each.relative_to(store)): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in files
    }


def _changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return [name for name in {*before, *after} if before.get(name) != after.get(name)]
