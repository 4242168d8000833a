"""A real RocketMQ of processes: name server, broker, client; each ended by its own process id."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster import processes
from tests.cluster.processes import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CLUSTER, BROKER = "cluster", "cluster-broker"
_LOOPBACK = "127.0.0.1"
_LOOPBACK_UP = ROOT / "tests" / "oracle" / "loopback_up.py"
_BOOTED = b"boot success"
_START_SECONDS = 120.0
_STOP_SECONDS = 90.0

SMALL_FILES = {
    "mappedFileSizeCommitLog": str(4 << 20),
    "mappedFileSizeConsumeQueue": str(2000 * 20),
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
}
"""So small that every kind of file rolls within seconds."""
LARGE_FILES = {"mappedFileSizeCommitLog": str(256 << 20)}
"""As brokers have them, but for a commitlog file that is reached within minutes."""

_PROPERTIES = {
    "brokerName": BROKER,
    "brokerClusterName": CLUSTER,
    "brokerId": "0",
    "brokerIP1": _LOOPBACK,
    "brokerIP2": _LOOPBACK,
    "bindAddress": _LOOPBACK,
    "autoCreateTopicEnable": "false",
    # A check-back within seconds instead of a minute.
    "transactionTimeOut": "2000",
    "transactionCheckInterval": "3000",
    "transactionOpBatchInterval": "1000",
    # A machine that does other work too is slow at times; that is not a reason to refuse messages.
    "waitTimeMillsInSendQueue": "5000",
    "osPageCacheBusyTimeOutMills": "10000",
    # Nothing expires while it is compared.
    "fileReservedTime": "876000",
    "diskMaxUsedSpaceRatio": "95",
}


def build() -> None:
    """Compiles the clients and fetches RocketMQ, unless that has been done already."""
    subprocess.run([HERE / "build.sh"], check=True, timeout=900)


@contextlib.contextmanager
def network() -> Iterator[list[str]]:
    """Gives what to put before a command so that it sees only a loopback of its own.

    A broker's HA service listens on all addresses. Where a namespace of its own is not permitted
    the prefix is empty.
    """
    if os.geteuid() != 0 or not shutil.which("nsenter"):
        yield []
        return
    # The namespace lives as long as a process in it: this one, until its input is closed.
    holder = subprocess.Popen(
        ["unshare", "-n", "sh", "-c", f"'{sys.executable}' '{_LOOPBACK_UP}' && echo up && cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert holder.stdout is not None
    try:
        up = holder.stdout.readline() == b"up\n"
        yield ["nsenter", f"--net=/proc/{holder.pid}/ns/net"] if up else []
    finally:
        holder.communicate(timeout=10)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((_LOOPBACK, 0))
        return int(one.getsockname()[1])


class Cluster:
    """A name server, and a broker that can be stopped, killed and started again on its store."""

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str],
        prefix: list[str],
        *,
        heap: str = "512m",
        store: Path | None = None,
    ) -> None:
        """Starts the name server only.

        Args:
            directory: for the store, the logs, and what RocketMQ keeps.
            properties: the broker's, over those that are always set.
            prefix: as `network` gives it.
            heap: the broker's.
            store: where there is one already.
        """
        self.directory = directory
        self.store = store or directory / "store"
        self.logs = directory / "broker-logs"
        self.conf = directory / "broker.conf"
        self.broker: subprocess.Popen[bytes] | None = None
        self._prefix = prefix
        self._heap = heap
        self._clients: list[subprocess.Popen[bytes]] = []
        directory.mkdir(parents=True, exist_ok=True)
        names, listen = (9876, 10911) if prefix else (_free_port(), _free_port())
        self.name_server_address = f"{_LOOPBACK}:{names}"
        self.broker_address = f"{_LOOPBACK}:{listen}"
        own = {
            "listenPort": str(listen),
            "namesrvAddr": self.name_server_address,
            "rocketmqHome": str(self.logs),
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
        }
        _write_properties(self.conf, {**_PROPERTIES, **own, **properties})
        conf = directory / "namesrv.conf"
        home = directory / "namesrv-logs"
        _write_properties(
            conf,
            {
                "bindAddress": _LOOPBACK,
                "listenPort": str(names),
                "rocketmqHome": str(home),
                "kvConfigPath": str(home / "kvConfig.json"),
                "configStorePath": str(home / "namesrv.properties"),
            },
        )
        self._name_server = self._java(
            "namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(conf), heap="64m"
        )
        self._wait_for_boot("namesrv", self._name_server, 0)

    def start_broker(self) -> None:
        """Starts the broker on the store and waits until it serves."""
        printed = _size(self.directory / "broker.out")
        self.broker = self._java(
            "broker",
            "org.apache.rocketmq.broker.BrokerStartup",
            "-c",
            str(self.conf),
            heap=self._heap,
        )
        self._wait_for_boot("broker", self.broker, printed)

    def stop_broker(self) -> None:
        """Has the broker end in order."""
        assert self.broker is not None
        processes.terminate(self.broker, _STOP_SECONDS)
        if (self.store / "abort").exists():
            raise ClusterError("the broker did not end in order: its abort file is still there")

    def kill_broker(self) -> None:
        """Has the broker end as if it had crashed."""
        processes.kill(self.broker)

    def client(
        self, name: str, main: str, *, stdin: int = subprocess.DEVNULL, **options: object
    ) -> Client:
        """Starts one of the mains of src/; it is told where the name server is."""
        values = {"namesrv": self.name_server_address, **options}
        arguments = [f"{key}={value}" for key, value in values.items()]
        process = self._java(name, f"cluster.{main}", *arguments, heap="384m", stdin=stdin)
        self._clients.append(process)
        return Client(process, self.directory / f"{name}.out")

    def close(self) -> None:
        """Ends whatever still runs."""
        for process in (*self._clients, self.broker, self._name_server):
            processes.kill(process)

    def _java(
        self, name: str, main: str, *arguments: str, heap: str, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        logs = self.directory / f"{name}-logs"
        logs.mkdir(exist_ok=True)
        command = [*self._prefix, str(HERE / "run.sh"), str(logs), main, *arguments]
        env = {**os.environ, "HEAP": heap}
        return processes.spawn(command, self.directory / f"{name}.out", env=env, stdin=stdin)

    def _wait_for_boot(self, name: str, process: subprocess.Popen[bytes], printed: int) -> None:
        output = self.directory / f"{name}.out"
        processes.wait_until(
            lambda: _BOOTED in output.read_bytes()[printed:],
            f"{name} starts (see {output} and {name}-logs beside it)",
            process,
            _START_SECONDS,
        )


class Client:
    """One of the mains of src/: it prints a JSON object a line."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self.output = output

    def last(self) -> dict[str, Any]:
        """The newest object it printed; empty if there is none yet."""
        for line in reversed(self.output.read_text("utf-8", "replace").split("\n")[:-1]):
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        return {}

    def go(self) -> None:
        """Lets it continue where it waits for a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def release(self) -> None:
        """Tells it that no more lines come: a load ends then, once its seconds are over."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def finish(self, seconds: float) -> dict[str, Any]:
        """Waits for it and returns the last object it printed."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ClusterError(f"not done within {seconds:.0f} s: see {self.output}") from None
        if code != 0:
            raise ClusterError(f"exit {code}: see {self.output}")
        return self.last()


def _write_properties(path: Path, values: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in sorted(values.items())))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
