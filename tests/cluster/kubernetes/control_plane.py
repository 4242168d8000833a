"""Which processes are a cluster? Those of Kubernetes' control plane, and two clients of it.

etcd, API server, controller manager and scheduler run on the loopback interface, and kwok plays the
nodes: pods become ready without a container.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

from tests.cluster.rig import LOCALHOST, TOOLS, CheckError, free_port

if TYPE_CHECKING:
    from pathlib import Path

NAMESPACE = "rocketmq"
_TOKEN = "reput-check"
_START_SECONDS = 120.0


class Cluster:
    """The processes of a cluster, and its two clients."""

    def __init__(self, directory: Path) -> None:
        """Choose its address, and start nothing yet.

        Args:
            directory: for data, certificates and logs.
        """
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig.json"
        self._running = contextlib.ExitStack()
        self._server = f"https://{LOCALHOST}:{free_port()}"

    def __enter__(self) -> Cluster:
        """Start everything."""
        try:
            self._start()
        except BaseException:
            self._running.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End every process that was started."""
        self._running.close()

    def _start(self) -> None:
        key = self.directory / "account.key"
        subprocess.run(
            ["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True
        )
        self._start_server(key)
        self._write_kubeconfig()
        self.until("the API server", self._is_ready)
        self._start_controllers(key)

    def _start_server(self, key: Path) -> None:
        """Start etcd, and the API server over it."""
        here = self.directory
        client, peer = free_port(), free_port()
        self._spawn(
            "etcd", f"--data-dir={here}/etcd", f"--listen-client-urls=http://{LOCALHOST}:{client}",
            f"--advertise-client-urls=http://{LOCALHOST}:{client}",
            f"--listen-peer-urls=http://{LOCALHOST}:{peer}", "--unsafe-no-fsync",
            f"--initial-advertise-peer-urls=http://{LOCALHOST}:{peer}",
            f"--initial-cluster=default=http://{LOCALHOST}:{peer}",
        )  # fmt: skip
        (here / "tokens.csv").write_text(f'{_TOKEN},admin,admin,"system:masters"\n', "utf-8")
        self._spawn(
            "kube-apiserver", f"--etcd-servers=http://{LOCALHOST}:{client}",
            f"--bind-address={LOCALHOST}", f"--secure-port={self._server.rpartition(':')[2]}",
            f"--cert-dir={here}/certificates", f"--token-auth-file={here}/tokens.csv",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16", "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
        )  # fmt: skip

    def _start_controllers(self, key: Path) -> None:
        """Start what acts on objects: controllers, the scheduler, and kwok for the nodes."""
        arguments = (f"--kubeconfig={self.kubeconfig}", "--leader-elect=false")
        self._spawn(
            "kube-controller-manager", *arguments, f"--service-account-private-key-file={key}",
            f"--secure-port={free_port()}", f"--bind-address={LOCALHOST}",
            f"--cert-dir={self.directory}/manager",
        )  # fmt: skip
        self._spawn(
            "kube-scheduler", *arguments, f"--secure-port={free_port()}",
            f"--bind-address={LOCALHOST}",
        )  # fmt: skip
        self._spawn(
            "kwok", f"--kubeconfig={self.kubeconfig}", "--manage-all-nodes=true",
            f"--config={TOOLS}/kwok-stages.yaml", "--node-lease-duration-seconds=40",
            f"--server-address={LOCALHOST}:{free_port()}", "--node-port=0",
        )  # fmt: skip

    def _spawn(self, name: str, *arguments: str) -> None:
        log = self._running.enter_context((self.directory / f"{name}.log").open("wb"))
        program = shutil.which(name, path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
        if program is None:
            raise CheckError(f"{name} is not here: run helm/tools.sh --cluster")
        process = subprocess.Popen([program, *arguments], stdout=log, stderr=log)

        def end() -> None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

        self._running.callback(end)

    def _write_kubeconfig(self) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "check",
            "contexts": [{"name": "check", "context": {"cluster": "check", "user": "admin"}}],
            "clusters": [
                {
                    "name": "check",
                    "cluster": {"server": self._server, "insecure-skip-tls-verify": True},
                }
            ],
            "users": [{"name": "admin", "user": {"token": _TOKEN}}],
        }
        self.kubeconfig.write_text(json.dumps(config), "utf-8")

    def _is_ready(self) -> bool:
        return self.try_run("kubectl", "get", "--raw", "/readyz").returncode == 0

    def until(self, what: str, holds: Any, seconds: float = _START_SECONDS) -> None:
        """Wait until something holds.

        Raises:
            CheckError: it does not in time.
        """
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise CheckError(f"{what}: not within {seconds} s; logs are in {self.directory}")
            time.sleep(0.3)

    def try_run(
        self, program: str, *arguments: str, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl or helm; any exit code is an answer."""
        path = shutil.which(program, path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        return subprocess.run(
            [str(path), *arguments],
            check=False,
            capture_output=True,
            text=True,
            input=text,
            env=environment,
        )

    def run(self, program: str, *arguments: str, text: str | None = None) -> str:
        """Run kubectl or helm, and return what it says.

        Raises:
            CheckError: it failed.
        """
        result = self.try_run(program, *arguments, text=text)
        if result.returncode:
            raise CheckError(f"{program} {' '.join(arguments)}: {result.stderr}{result.stdout}")
        return result.stdout

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create or change objects."""
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.run("kubectl", "apply", "--server-side", "-f", "-", text=document)

    def get(self, *arguments: str) -> dict[str, Any]:
        """Return objects of the namespace."""
        text = self.run("kubectl", "-n", NAMESPACE, "get", *arguments, "-o", "json")
        found: dict[str, Any] = json.loads(text)
        return found

    def helm(self, verb: str, *arguments: str) -> str:
        """Run helm in the namespace."""
        return self.run("helm", verb, "reput", *arguments, "--namespace", NAMESPACE)
