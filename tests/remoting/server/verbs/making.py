"""Makes a store with a real broker: topics, messages and groups of all kinds."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from tests.cluster.processes import ClusterError
from tests.remoting.server.verbs import processes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_AT = ("-b", f"{processes.LOOPBACK}:{processes.BROKER_PORT}")
_TOPICS = {
    "T1": ("-r", "2", "-w", "2"),
    "TG": ("-r", "2", "-w", "2"),
    "T9": ("-r", "1", "-w", "1"),
    "R1": ("-r", "1", "-w", "1"),
    "Empty": ("-r", "3", "-w", "3", "-u", "true"),
    "Closed": ("-r", "1", "-w", "1", "-p", "2"),
    "TX1": ("-r", "1", "-w", "1"),
    "Late": ("-r", "1", "-w", "1"),
    "Fifo": ("-r", "2", "-w", "2", "-o", "true"),
}
_TRIES = 20
_KINDS = {"TX1": "TRANSACTION", "Late": "DELAY", "Fifo": "FIFO"}
_GROUPS = {
    "CG9": ("-s", "false"),
    "CGD": ("-d", "false", "-r", "3"),
    "CGO": ("-q", "2"),
}


def make(version: str, directory: Path, prefix: Sequence[str]) -> Path:
    """Make the store of a version, and return it; what was there is removed."""
    shutil.rmtree(directory, ignore_errors=True)
    store = directory / "store"
    is_5 = version.startswith("5")
    with processes.tools(version, directory / "tools", prefix) as tools:
        real = processes.Real(version, directory / "broker", store, prefix)
        try:
            for topic, words in _TOPICS.items():
                kind = _KINDS.get(topic) if is_5 else None
                more = ("-a", f"+message.type={kind}") if kind else ()
                _do(tools, "updateTopic", "-t", topic, *_AT, *words, *more)
            for group, words in _GROUPS.items():
                more = ("-o", "true") if is_5 and group == "CGO" else ()
                _do(tools, "updateSubGroup", "-g", group, *_AT, *words, *more)
            said = tools.do("fill", version)
            if said:
                raise ClusterError(f"the store was not filled: {said}")
            real.stop()
        finally:
            real.kill()
    return store


def _do(tools: processes.Tools, *words: str) -> None:
    """Let mqadmin do something, which may take until the broker is known."""
    said = ""
    for _ in range(_TRIES):
        said = tools.mqadmin(*words)
        if "success" in said and "Exception" not in said:
            return
        time.sleep(0.5)
    raise ClusterError(f"a tool did not do what the store needs: {said}")
