"""Installs the chart on a real Kubernetes API server: `python -m tests.cluster.chart`.

etcd, API server, controller manager and scheduler run as processes on the loopback interface, and
kwok plays the nodes: pods become ready without a container. What is tried is what a linter cannot
know: admission (Pod Security "restricted" is enforced), server-side validation, scheduling beside
the broker's pod, binding of claims, `--wait`, upgrade, rollback, removal, what is refused, the pods
of a sidecar and of the Spark operator, and what becomes of a volume when a broker moves.
`helm/tools.sh --cluster` gets the programs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HELM = Path(__file__).resolve().parents[2] / "helm"
CHART = HELM / "reput"
TOOLS = Path(os.environ.get("REPUT_TOOLS", HELM.parent / ".venv" / "tools"))
NAMESPACE = "rocketmq"
_LOCALHOST = "127.0.0.1"
_TOKEN = "reput-check"
_START_SECONDS = 120.0
_DRIVER = "disk.example.com"
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "runAsUser": 3000,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


class CheckError(Exception):
    """Something is not as it has to be."""


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind((_LOCALHOST, 0))
        return int(listener.getsockname()[1])


class Cluster:
    """The processes of a cluster, and its two clients."""

    def __init__(self, directory: Path) -> None:
        """Prepare.

        Args:
            directory: for data, certificates and logs.
        """
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig.json"
        self._running = contextlib.ExitStack()
        self._server = f"https://{_LOCALHOST}:{free_port()}"

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
        here = self.directory
        client, peer = free_port(), free_port()
        self._spawn(
            "etcd", f"--data-dir={here}/etcd", f"--listen-client-urls=http://{_LOCALHOST}:{client}",
            f"--advertise-client-urls=http://{_LOCALHOST}:{client}",
            f"--listen-peer-urls=http://{_LOCALHOST}:{peer}", "--unsafe-no-fsync",
            f"--initial-advertise-peer-urls=http://{_LOCALHOST}:{peer}",
            f"--initial-cluster=default=http://{_LOCALHOST}:{peer}",
        )  # fmt: skip
        key = here / "account.key"
        subprocess.run(
            ["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True
        )
        (here / "tokens.csv").write_text(f'{_TOKEN},admin,admin,"system:masters"\n', "utf-8")
        self._spawn(
            "kube-apiserver", f"--etcd-servers=http://{_LOCALHOST}:{client}",
            f"--bind-address={_LOCALHOST}", f"--secure-port={self._server.rpartition(':')[2]}",
            f"--cert-dir={here}/certificates", f"--token-auth-file={here}/tokens.csv",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16", "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
        )  # fmt: skip
        self._write_kubeconfig()
        self.until("the API server", self._is_ready)
        arguments = (f"--kubeconfig={self.kubeconfig}", "--leader-elect=false")
        self._spawn(
            "kube-controller-manager", *arguments, f"--service-account-private-key-file={key}",
            f"--secure-port={free_port()}", f"--bind-address={_LOCALHOST}",
            f"--cert-dir={here}/manager",
        )  # fmt: skip
        self._spawn(
            "kube-scheduler", *arguments, f"--secure-port={free_port()}",
            f"--bind-address={_LOCALHOST}",
        )  # fmt: skip
        self._spawn(
            "kwok", f"--kubeconfig={self.kubeconfig}", "--manage-all-nodes=true",
            f"--config={TOOLS}/kwok-stages.yaml", "--node-lease-duration-seconds=40",
            f"--server-address={_LOCALHOST}:{free_port()}", "--node-port=0",
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


def custom(group: str, plural: str, kind: str, name: str = "v1") -> dict[str, Any]:
    """Return a definition that takes anything: the types are checked elsewhere."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": name, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # A group of Kubernetes' own asks for it.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a check"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def volume(name: str) -> dict[str, Any]:
    """Return a volume that any claim of up to 100 GiB may have."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "100Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "hostPath": {"path": f"/volumes/{name}"},
        },
    }


def disk(name: str) -> dict[str, Any]:
    """Return a volume for the claim of a name, which a driver attaches to one node at a time."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "100Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": NAMESPACE, "name": name},
            "csi": {"driver": _DRIVER, "volumeHandle": name},
        },
    }


def claim(name: str, volume_name: str = "") -> dict[str, Any]:
    """Return a claim of a broker, of one volume if that is named."""
    named = {"volumeName": volume_name} if volume_name else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "100Gi"}},
            **named,
        },
    }


def broker(name: str, node: str, claims: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a broker's pod on a node, with volumes."""
    container = {"name": "broker", "image": "broker", "securityContext": _RESTRICTED}
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"app": "rocketmq-broker", "brokerName": name},
        },
        "spec": {"nodeName": node, "containers": [container], "volumes": volumes},
    }


def node(name: str) -> dict[str, Any]:
    """Return a node that kwok plays."""
    resources = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name},
            # A kubelet says so: the controllers attach volumes to this node.
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "status": {"allocatable": resources, "capacity": resources},
    }


def furnish(cluster: Cluster) -> None:
    """Make nodes, a namespace that is restricted, volumes, and a broker on the second node."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.apply(
        custom("monitoring.coreos.com", "servicemonitors", "ServiceMonitor"),
        custom("monitoring.coreos.com", "prometheusrules", "PrometheusRule"),
        custom("sparkoperator.k8s.io", "sparkapplications", "SparkApplication", "v1beta2"),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": _DRIVER},
            "spec": {"attachRequired": True, "podInfoOnMount": False},
        },
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": labels},
        },
        *(node(f"node-{number}") for number in range(3)),
        *(volume(f"volume-{number}") for number in range(6)),
    )
    cluster.until("nodes", lambda: cluster.run("kubectl", "get", "nodes").count(" Ready") == 3)
    account = ("-n", NAMESPACE, "get", "serviceaccount", "default")
    cluster.until("accounts", lambda: cluster.try_run("kubectl", *account).returncode == 0)
    cluster.apply(claim("store-broker-a-0"), broker("broker-a", "node-1"))


def check_install(cluster: Cluster) -> None:
    """Install, and look where the pods are and what they may do."""
    cluster.helm("install", str(CHART), *_values(), "--wait", "--timeout", "180s")
    pods = cluster.get("pods", "-l", "app.kubernetes.io/instance=reput")["items"]
    places = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}
    expect(places.get("reput-broker-a-0") == "node-1", f"not beside its broker: {places}")
    expect(len(pods) == 1, f"one writer, not {list(places)}")
    claims = {
        each["metadata"]["name"]: each["status"]["phase"] for each in cluster.get("pvc")["items"]
    }
    expect(claims.get("output-reput-broker-a-0") == "Bound", f"claims are {claims}")
    for kind in ("servicemonitor", "prometheusrule", "networkpolicy", "poddisruptionbudget"):
        cluster.get(kind, "reput")


def check_upgrade(cluster: Cluster) -> None:
    """Upgrade, roll back: the pod is replaced each time, and the claim stays."""
    seen = [_pod(cluster)]
    before = cluster.get("pvc", "output-reput-broker-a-0")["metadata"]["uid"]
    cluster.helm("upgrade", str(CHART), *_values(), "--set", "image.tag=next", *_WAIT)
    seen.append(_pod(cluster))
    cluster.helm("rollback", "1", *_WAIT)
    seen.append(_pod(cluster))
    images = [pod["spec"]["containers"][0]["image"] for pod in seen]
    expect(images[0] == images[2] != images[1], f"images were {images}")
    expect(len({pod["metadata"]["uid"] for pod in seen}) == 3, "a pod was not replaced")
    after = cluster.get("pvc", "output-reput-broker-a-0")["metadata"]["uid"]
    expect(before == after, "the output's claim was replaced")


def check_refusals(cluster: Cluster) -> None:
    """Give what is wrong: helm or the server says so, and nothing has changed."""
    wrong = {
        "run.tial=visible": "'tial' not allowed",
        "stores=null": "name at least one store",
        "podSecurityContext.runAsUser=root": "runAsUser",
        "tolerations[0].operator=Sometimes": "Sometimes",
    }
    before = cluster.get("statefulset", "reput-broker-a")["metadata"]["generation"]
    for setting, message in wrong.items():
        result = cluster.try_run(
            "helm", "upgrade", "reput", str(CHART), *_values(), "--set", setting, "-n", NAMESPACE
        )
        said = result.stderr + result.stdout
        expect(result.returncode != 0 and message in said, f"{setting}: {said}")
        print(f"   {setting}: {said.strip().splitlines()[-1].strip()[:140]}")
    after = cluster.get("statefulset", "reput-broker-a")["metadata"]["generation"]
    expect(before == after, "a refused upgrade changed something")
    stores = json.dumps([{"name": "broker-a", "source": {"hostPath": "/data"}}])
    path = ("--set-json", f"stores={stores}")
    text = cluster.run("helm", "template", "other", str(CHART), *_values(), *path, "-n", NAMESPACE)
    result = cluster.try_run("kubectl", "apply", "--dry-run=server", "-f", "-", text=text)
    expect("hostPath" in result.stderr, f"hostPath is not warned of: {result.stderr}")


def check_sidecar(cluster: Cluster) -> None:
    """Apply the sidecar's patch to a broker's StatefulSet, as NOTES say, and take it out again.

    The pods are admitted each time, in a namespace that lets in restricted ones only.
    """
    container = {"name": "broker", "image": "broker", "securityContext": _RESTRICTED}
    # Names that the job's own volumes have in other modes.
    names = ("store", "reput-output", "config", "tmp", "secret-0")
    volumes: list[dict[str, Any]] = [{"name": name, "emptyDir": {}} for name in names]
    labels = {"app": "other"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "volumes": volumes},
    }
    stateful = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "other", "namespace": NAMESPACE},
        "spec": {
            "serviceName": "other",
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }
    cluster.apply(stateful)
    more = (
        "mode=sidecar", "secretMounts[0].name=s", "secretMounts[0].mountPath=/etc/s",
        "extraVolumes[0].name=v", "extraVolumes[0].emptyDir.sizeLimit=1Mi",
        "extraVolumeMounts[0].name=v", "extraVolumeMounts[0].mountPath=/v",
        "imagePullSecrets={pull}",
    )  # fmt: skip
    settings = [part for setting in more for part in ("--set", setting)]
    cluster.run("helm", "install", "side", str(CHART), *_values(), *settings, "-n", NAMESPACE)
    before = cluster.get("statefulset", "other")["spec"]["template"]["spec"]
    patches = cluster.get("configmap", "side-reput-broker-a-sidecar")["data"]
    for key, expected in (("patch.yaml", {"broker", "reput"}), ("remove.yaml", {"broker"})):
        path = cluster.directory / key
        path.write_text(patches[key], "utf-8")
        cluster.run(
            "kubectl", "-n", NAMESPACE, "patch", "statefulset", "other", f"--patch-file={path}"
        )
        cluster.until(
            f"the broker's pod after {key}",
            lambda expected=expected: _containers(cluster, "other-0") == expected,
        )
    after = cluster.get("statefulset", "other")["spec"]["template"]["spec"]
    for key in ("containers", "volumes"):
        expect(after[key] == before[key], f"remove.yaml leaves {after[key]}")
    cluster.run("helm", "uninstall", "side", "-n", NAMESPACE)
    cluster.run("kubectl", "-n", NAMESPACE, "delete", "statefulset", "other", "--wait=false")


def _containers(cluster: Cluster, pod: str) -> set[str]:
    """Return the containers of a pod that is ready, none for another."""
    result = cluster.try_run("kubectl", "-n", NAMESPACE, "get", "pod", pod, "-o", "json")
    if result.returncode != 0:
        return set()
    found = json.loads(result.stdout)
    conditions = found["status"].get("conditions", [])
    ready = any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
    ends = "deletionTimestamp" in found["metadata"]
    return {each["name"] for each in found["spec"]["containers"]} if ready and not ends else set()


def operator_pod(application: dict[str, Any], who: str) -> dict[str, Any]:
    """Return the pod that Spark and its operator make of an application.

    Args:
        application: a SparkApplication.
        who: driver or executor.
    """
    spec, part = application["spec"], application["spec"][who]
    template = part["template"]["spec"]
    (container,) = template["containers"]
    container = {
        **container,
        "image": spec["image"],
        **{key: part[key] for key in ("env", "volumeMounts", "securityContext") if key in part},
        "ports": part.get("ports", []),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"spark-{who}", "namespace": NAMESPACE, "labels": part["labels"]},
        "spec": {
            **template,
            "containers": [container],
            "serviceAccountName": part["serviceAccount"],
            "securityContext": part["podSecurityContext"],
            "terminationGracePeriodSeconds": 1,
            "volumes": spec["volumes"],
        },
    }


def check_spark(cluster: Cluster) -> None:
    """Install for the Spark operator; its pods are admitted, with claims, and one is scraped."""
    account = {"kind": "ServiceAccount", "apiVersion": "v1"}
    cluster.apply({**account, "metadata": {"name": "spark", "namespace": NAMESPACE}})
    more = (
        "mode=sparkApplication", "sparkApplication.serviceAccount=spark",
        "output.accessModes={ReadWriteMany}", "sparkApplication.authSecret.name=auth",
    )  # fmt: skip
    settings = [part for setting in more for part in ("--set", setting)]
    cluster.run("helm", "install", "spark", str(CHART), *_values(), *settings, "-n", NAMESPACE)
    application = cluster.get("sparkapplication", "spark-reput-broker-a")
    cluster.apply(*(operator_pod(application, who) for who in ("driver", "executor")))
    for who in ("driver", "executor"):
        cluster.until(
            f"the {who}",
            lambda who=who: _containers(cluster, f"spark-{who}") == {f"spark-kubernetes-{who}"},
        )
    found = cluster.get("pvc", "output-spark-reput-broker-a-0")
    expect(found["status"]["phase"] == "Bound", f"the claim is {found['status']}")
    slices = ("endpointslices", "-l", "kubernetes.io/service-name=spark-reput")
    cluster.until(
        "endpoints",
        lambda: (
            [
                endpoint["targetRef"]["name"]
                for each in cluster.get(*slices)["items"]
                for endpoint in each["endpoints"] or []
            ]
            == ["spark-driver"]
        ),
    )
    for name in ("spark-reput", "spark-reput-executors", "spark-reput-verify"):
        cluster.get("networkpolicy", name)
    cluster.run(
        "kubectl", "-n", NAMESPACE, "delete", "pod", "spark-driver", "spark-executor",
        "--wait=false",
    )  # fmt: skip
    cluster.run("helm", "uninstall", "spark", "-n", NAMESPACE)
    cluster.get("pvc", "output-spark-reput-broker-a-0")


def check_move(cluster: Cluster) -> None:
    """Move a broker away from its reader: it is kept from its volume until the reader follows."""
    name, reader = "store-broker-b-0", "move-reput-broker-b-0"
    cluster.apply(disk(name), claim(name, name))
    cluster.until("the claim", lambda: cluster.get("pvc", name)["status"]["phase"] == "Bound")
    cluster.apply(broker("broker-b", "node-1", (name,)))
    _attach(cluster, name, "node-1")
    store = {
        "name": "broker-b",
        "source": {"existingClaim": name},
        "brokerPod": {"matchLabels": {"brokerName": "broker-b"}},
    }
    cluster.run(
        "helm", "install", "move", str(CHART), "--set-json", f"stores={json.dumps([store])}",
        "--namespace", NAMESPACE, *_WAIT,
    )  # fmt: skip
    expect(_place(cluster, reader) == "node-1", "the reader is not beside its broker")
    cluster.run("kubectl", "-n", NAMESPACE, "delete", "pod", "broker-b", "--grace-period=0")
    cluster.apply(broker("broker-b", "node-2", (name,)))
    about = ("events", "--field-selector", "involvedObject.name=broker-b")
    cluster.until("Multi-Attach", lambda: "Multi-Attach" in json.dumps(cluster.get(*about)))
    expect(_place(cluster, reader) == "node-1", "the reader has moved by itself")
    # What NOTES say.
    cluster.run("kubectl", "-n", NAMESPACE, "delete", "pod", reader)
    cluster.until("the reader", lambda: _place(cluster, reader) == "node-2", 180.0)
    _attach(cluster, name, "node-2")
    expect(_attached(cluster, name) == {"node-2"}, f"attached to {_attached(cluster, name)}")
    cluster.run("helm", "uninstall", "move", "-n", NAMESPACE)


def _place(cluster: Cluster, pod: str) -> str:
    """Return the node of a pod that is there to stay, an empty text without one."""
    result = cluster.try_run("kubectl", "-n", NAMESPACE, "get", "pod", pod, "-o", "json")
    found = json.loads(result.stdout) if result.returncode == 0 else {"metadata": {}, "spec": {}}
    return "" if "deletionTimestamp" in found["metadata"] else found["spec"].get("nodeName", "")


def _attached(cluster: Cluster, volume_name: str) -> set[str]:
    """Return the nodes that a volume is attached to, or is to be."""
    return {
        each["spec"]["nodeName"]
        for each in cluster.get("volumeattachments")["items"]
        if each["spec"]["source"].get("persistentVolumeName") == volume_name
    }


def _attach(cluster: Cluster, volume_name: str, place: str) -> None:
    """Wait until the controllers want a volume attached to a node, and do what a driver does."""
    cluster.until(
        f"{volume_name} for {place}", lambda: place in _attached(cluster, volume_name), 180.0
    )
    for each in cluster.get("volumeattachments")["items"]:
        if each["spec"]["nodeName"] == place:
            cluster.run(
                "kubectl", "patch", "volumeattachment", each["metadata"]["name"],
                "--subresource=status", "--type=merge", "-p", '{"status": {"attached": true}}',
            )  # fmt: skip


def check_removal(cluster: Cluster) -> None:
    """Remove: all is gone but the output."""
    cluster.helm("uninstall", "--wait")
    pod = ("-n", NAMESPACE, "get", "pod", "reput-broker-a-0")
    cluster.until("the pod's end", lambda: cluster.try_run("kubectl", *pod).returncode != 0, 180.0)
    left = cluster.get("all,configmap,pvc", "-l", "app.kubernetes.io/instance=reput")["items"]
    names = [f"{each['kind']}/{each['metadata']['name']}" for each in left]
    expect(names == ["PersistentVolumeClaim/output-reput-broker-a-0"], f"left: {names}")


_WAIT = ("--wait", "--timeout", "180s")
_STEPS = (
    furnish, check_install, check_upgrade, check_refusals, check_sidecar, check_spark, check_move,
    check_removal,
)  # fmt: skip


def _values() -> tuple[str, ...]:
    # The first store of the values with everything in them; the second needs a driver.
    values = str(CHART / "ci" / "cluster-values.yaml")
    return ("--values", values)


def _pod(cluster: Cluster) -> dict[str, Any]:
    return cluster.get("pod", "reput-broker-a-0")


def expect(holds: object, message: str) -> None:
    """Raise if something is not so.

    Raises:
        CheckError: with the message.
    """
    if not holds:
        raise CheckError(message)


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long something took."""
    began = time.monotonic()
    yield
    print(f"== {what}: {time.monotonic() - began:.1f} s", flush=True)


def main() -> int:
    """Run all steps and return the exit code."""
    directory = Path(tempfile.mkdtemp(prefix="reput-cluster-"))
    try:
        with contextlib.ExitStack() as stack:
            with timed("start"):
                cluster = stack.enter_context(Cluster(directory))
            for step in _STEPS:
                with timed(step.__name__.removeprefix("check_")):
                    step(cluster)
    except CheckError as error:
        print(f"cluster: {error}\nlogs are in {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    print(f"{len(_STEPS)} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
