"""What runs: a real name server and broker, `reput serve` in their place, and the tools' JVM."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster import processes
from tests.cluster.processes import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HERE = Path(__file__).resolve().parent
LOOPBACK = "127.0.0.1"
BROKER, CLUSTER = "b0", "cl0"
NAMES_PORT, BROKER_PORT = 9876, 10911
_OPENED = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
)
_LOGBACK = ("logback_broker.xml", "logback_namesrv.xml", "logback_tools.xml")
_START_SECONDS, _STOP_SECONDS, _ANSWER_SECONDS = 120.0, 90.0, 180.0

PROPERTIES = {
    "brokerName": BROKER,
    "brokerClusterName": CLUSTER,
    "brokerId": "0",
    "brokerIP1": LOOPBACK,
    "brokerIP2": LOOPBACK,
    "bindAddress": LOOPBACK,
    "listenPort": str(BROKER_PORT),
    "namesrvAddr": f"{LOOPBACK}:{NAMES_PORT}",
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "mappedFileSizeCommitLog": str(4 << 20),
    "mappedFileSizeConsumeQueue": str(2000 * 20),
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
    # 4.9 finds the time of its first message only where twice this many bytes follow.
    "maxMessageSize": "8192",
    # What nobody has settled stays as it is while it is compared, and nothing expires.
    "transactionTimeOut": "86400000",
    "transactionCheckInterval": "86400000",
    "fileReservedTime": "876000",
    "diskMaxUsedSpaceRatio": "95",
    # A machine that does other work too is slow at times; that is not a reason to refuse messages.
    "waitTimeMillsInSendQueue": "5000",
    "osPageCacheBusyTimeOutMills": "10000",
}


def build(version: str) -> None:
    """Compile the clients and fetch RocketMQ, unless that has been done already."""
    subprocess.run([HERE / "build.sh", version], check=True, timeout=900)


def java(version: str, home: Path, heap: str, main: str, *words: str) -> list[str]:
    """Return the command of a Java program of that RocketMQ; `home` is made for it."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    for name in _LOGBACK:
        (home / "conf" / name).write_text("<configuration/>")
    target = HERE / "target" / version
    return [
        *("java", f"-Xmx{heap}", "-XX:MaxDirectMemorySize=256m", "-Djava.security.manager=allow"),
        *("-XX:TieredStopAtLevel=1", f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"),
        # 4.9 has the plain logback, 5.x one of its own.
        f"-Dlogback.configurationFile={home}/conf/{_LOGBACK[0]}",
        f"-Drmq.logback.configurationFile={home}/conf/{_LOGBACK[0]}",
        "-Drocketmq.client.logUseSlf4j=true",
        *_OPENED,
        *("-cp", f"{target}/classes:{target}/lib/*", main, *words),
    ]


def write_properties(path: Path, values: Mapping[str, str]) -> Path:
    """Write a file of properties, and return it."""
    path.write_text("".join(f"{name}={value}\n" for name, value in sorted(values.items())))
    return path


class Real:
    """A name server and a broker of RocketMQ on a store."""

    def __init__(self, version: str, directory: Path, store: Path, prefix: Sequence[str]) -> None:
        """Start both, and return once they serve."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory, self.store = directory, store
        home = directory / "home"
        names = {
            "bindAddress": LOOPBACK,
            "listenPort": str(NAMES_PORT),
            "rocketmqHome": str(home),
            "kvConfigPath": str(directory / "kvConfig.json"),
            "configStorePath": str(directory / "namesrv.properties"),
        }
        own = {
            "rocketmqHome": str(home),
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
        }
        confs = {
            "namesrv.NamesrvStartup": write_properties(directory / "namesrv.conf", names),
            "broker.BrokerStartup": write_properties(directory / "broker.conf", PROPERTIES | own),
        }
        self._processes: list[subprocess.Popen[bytes]] = []
        for main, conf in confs.items():
            output = directory / f"{main}.out"
            output.unlink(missing_ok=True)
            words = ("-c", str(conf))
            command = java(version, home, "384m", f"org.apache.rocketmq.{main}", *words)
            process = processes.spawn([*prefix, *command], output)
            self._processes.append(process)
            said = f"{main} starts (see {output})"
            processes.wait_until(
                lambda output=output: b"boot success" in output.read_bytes(),
                said,
                process,
                _START_SECONDS,
            )

    def stop(self) -> None:
        """End the broker in order, so that all it knows is in its files; then the name server."""
        processes.terminate(self._processes[1], _STOP_SECONDS)
        self.kill()
        if (self.store / "abort").exists():
            raise ClusterError("the broker did not end in order: its abort file is still there")

    def kill(self) -> None:
        """End both at once."""
        for process in self._processes:
            processes.kill(process)


class Ours:
    """`reput serve` on a store, with the ports and the names of `Real`."""

    def __init__(self, version: str, directory: Path, store: Path, prefix: Sequence[str]) -> None:
        """Start it, and return once it serves."""
        directory.mkdir(parents=True, exist_ok=True)
        own = {"storePathRootDir": str(store), "storePathCommitLog": str(store / "commitlog")}
        said = {
            "--store": store,
            "--broker-version": version.rpartition(".")[0],
            "--broker-conf": write_properties(directory / "broker.conf", PROPERTIES | own),
            "--offsets": directory / "offsets",
            "--broker-name": BROKER,
            "--cluster": CLUSTER,
            "--listen": f"{LOOPBACK}:{BROKER_PORT}",
            "--namesrv-listen": f"{LOOPBACK}:{NAMES_PORT}",
        }
        words = [str(word) for pair in said.items() for word in pair]
        # As a broker does as long as it has the first message in memory.
        words.append("--new-groups-read-all")
        self.log = directory / "serve.log"
        self.log.unlink(missing_ok=True)
        command = [*prefix, sys.executable, "-m", "reput", "serve", *words]
        self._process = processes.spawn(command, self.log)
        processes.wait_until(
            lambda: b"clients dial" in self.log.read_bytes(),
            f"reput serve starts (see {self.log})",
            self._process,
            _START_SECONDS,
        )

    def kill(self) -> None:
        """End it."""
        processes.terminate(self._process, _STOP_SECONDS)


class Tools:
    """mqadmin, and members of groups, in one JVM: to start one for each verb takes too long.

    Attributes:
        directory: where it runs, and exports files to.
    """

    def __init__(self, version: str, directory: Path, prefix: Sequence[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._errors = (directory / "tools.err").open("wb")
        names = f"{LOOPBACK}:{NAMES_PORT}"
        command = java(version, directory / "home", "384m", "verbs.Rig", names)
        environment = {k: v for k, v in os.environ.items() if k != "NAMESRV_ADDR"}
        self._process = subprocess.Popen(
            [*prefix, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=directory,
            env=environment,
        )

    def do(self, *words: str) -> str:
        """Let it do something; return the text that came out."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words).encode() + b"\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(b"="):
                return base64.b64decode(line[1:]).decode()
        raise ClusterError(f"the tools ended: see {self._errors.name}")

    def mqadmin(self, *words: str) -> str:
        """Return what mqadmin prints."""
        return self.do("mqadmin", *words)

    def settle(self, still: float, seconds: float) -> None:
        """Wait until the members have taken nothing for a while."""
        until, since, last = time.monotonic() + seconds, time.monotonic(), ""
        while time.monotonic() < until and time.monotonic() - since < still:
            taken = self.do("taken")
            if taken != last:
                last, since = taken, time.monotonic()
            time.sleep(0.1)

    def kill(self) -> None:
        """End it."""
        processes.kill(self._process)
        self._errors.close()


@contextlib.contextmanager
def tools(version: str, directory: Path, prefix: Sequence[str]) -> Iterator[Tools]:
    """Run the tools' JVM until the block ends."""
    made = Tools(version, directory, prefix)
    try:
        yield made
    finally:
        made.kill()
