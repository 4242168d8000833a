"""Stock Java consumers and mqadmin, as processes of their own."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.builders.servers import LOOPBACK
from tests.oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOOLS = Path(__file__).resolve().parent.parent / "remoting"
_OPENED = ("java.nio", "java.lang", "sun.nio.ch", "jdk.internal.ref")
_SECONDS = 120


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "NAMESRV_ADDR"}


class Consumer:
    """A consumer that runs until it has some number of messages, or its time is over."""

    def __init__(self, process: subprocess.Popen[str], taken: Path) -> None:
        self.process = process
        self._taken = taken

    def taken(self) -> list[list[str]]:
        """Return what it got: queue id, queue offset, physical offset, tags, body bytes."""
        _, errors = self.process.communicate(timeout=_SECONDS)
        assert self.process.returncode == 0, errors
        return [line.split() for line in self._taken.read_text().splitlines()]


def java_command(version: str, home: Path, program: str) -> list[str]:
    """Return what runs a class of `tests.oracle` with a client of some version."""
    oracle.build(version)
    target = oracle.HERE / "target" / version
    java = ["java", "-Xmx256m", f"-Duser.home={home}"]
    java += [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in _OPENED]
    return [*java, "-cp", f"{target}/classes:{target}/lib/*", program]


@contextlib.contextmanager
def sending_back(
    names: int,
    version: str,
    directory: Path,
    *,
    count: int,
    kind: str = "concurrent",
    topic: str = "t",
    group: str = "g",
    level: int = 1,
    most: int = 2,
    seconds: int = 60,
) -> Iterator[Path]:
    """Run a consumer that fails at each message whose key begins with "bad".

    Args:
        names: port of the name server.
        version: of the client.
        directory: its home.
        count: messages after which it ends.
        kind: concurrent or orderly.
        topic: that it reads.
        group: its own.
        level: of the delay that it asks for.
        most: how often a message is tried again.
        seconds: after which it ends with fewer.

    Yields:
        The file that gets a line for each message.
    """
    taken = directory / f"taken-{group}-{version}"
    words = (f"{LOOPBACK}:{names}", kind, topic, group, level, most, count, seconds, taken)
    with subprocess.Popen(
        [*java_command(version, directory, "oracle.SendBack"), *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_environment(),
    ) as process:
        try:
            yield taken
            process.wait(_SECONDS)
        finally:
            process.kill()


@contextlib.contextmanager
def consuming(
    names: int,
    version: str,
    kind: str,
    directory: Path,
    *,
    wanted: str = "*",
    count: int,
    prefix: Sequence[str] = (),
) -> Iterator[Consumer]:
    """Run a consumer of topic t in group g-KIND; it is killed when the block ends.

    Args:
        names: port of the name server.
        version: of the client.
        kind: as `oracle.Consume` names it.
        directory: its home.
        wanted: a filter.
        count: messages after which it ends; after 60 s it ends with fewer.
        prefix: what is put before the command.
    """
    taken = directory / f"taken-{kind}"
    java = [*prefix, *java_command(version, directory, "oracle.Consume")]
    words = (f"{LOOPBACK}:{names}", kind, "t", f"g-{kind}", wanted, str(count), "60", str(taken))
    process = subprocess.Popen(
        [*java, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(),
    )
    with process:
        try:
            yield Consumer(process, taken)
        finally:
            process.kill()


def run_tool(names: int, version: str, home: Path, *words: str) -> str:
    """Return what mqadmin prints.

    Args:
        names: port of the name server.
        version: of the tool.
        home: a directory for its settings.
        words: the command and its options.
    """
    subprocess.run([_TOOLS / "build.sh", version], check=True, timeout=600)
    # mqadmin of 4.9 ends in silence without it.
    (home / "conf").mkdir(exist_ok=True)
    (home / "conf" / "logback_tools.xml").write_text("<configuration/>")
    done = subprocess.run(
        [
            *("java", "-Xmx256m", f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"),
            *("-cp", f"{_TOOLS}/target/{version}/lib/*"),
            "org.apache.rocketmq.tools.command.MQAdminStartup",
            *words,
            *("-n", f"{LOOPBACK}:{names}"),
        ],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
        env=_environment(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
