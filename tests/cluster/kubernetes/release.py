"""What becomes of a release? It is installed, upgraded, rolled back, refused and removed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.cluster.kubernetes.control_plane import NAMESPACE
from tests.cluster.rig import HELM, expect

if TYPE_CHECKING:
    from tests.cluster.kubernetes.control_plane import Cluster

CHART = HELM / "reput"
# The first store of the values with everything in them; the second needs a driver.
VALUES = ("--values", str(CHART / "ci" / "cluster-values.yaml"))
WAIT = ("--wait", "--timeout", "180s")


def check_install(cluster: Cluster) -> None:
    """Install, and look where the pods are and what they may do."""
    cluster.helm("install", str(CHART), *VALUES, "--wait", "--timeout", "180s")
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
    cluster.helm("upgrade", str(CHART), *VALUES, "--set", "image.tag=next", *WAIT)
    seen.append(_pod(cluster))
    cluster.helm("rollback", "1", *WAIT)
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
            "helm", "upgrade", "reput", str(CHART), *VALUES, "--set", setting, "-n", NAMESPACE
        )
        said = result.stderr + result.stdout
        expect(result.returncode != 0 and message in said, f"{setting}: {said}")
        print(f"   {setting}: {said.strip().splitlines()[-1].strip()[:140]}")
    after = cluster.get("statefulset", "reput-broker-a")["metadata"]["generation"]
    expect(before == after, "a refused upgrade changed something")
    stores = json.dumps([{"name": "broker-a", "source": {"hostPath": "/data"}}])
    path = ("--set-json", f"stores={stores}")
    text = cluster.run("helm", "template", "other", str(CHART), *VALUES, *path, "-n", NAMESPACE)
    result = cluster.try_run("kubectl", "apply", "--dry-run=server", "-f", "-", text=text)
    expect("hostPath" in result.stderr, f"hostPath is not warned of: {result.stderr}")


def check_removal(cluster: Cluster) -> None:
    """Remove: all is gone but the output."""
    cluster.helm("uninstall", "--wait")
    pod = ("-n", NAMESPACE, "get", "pod", "reput-broker-a-0")
    cluster.until("the pod's end", lambda: cluster.try_run("kubectl", *pod).returncode != 0, 180.0)
    left = cluster.get("all,configmap,pvc", "-l", "app.kubernetes.io/instance=reput")["items"]
    names = [f"{each['kind']}/{each['metadata']['name']}" for each in left]
    expect(names == ["PersistentVolumeClaim/output-reput-broker-a-0"], f"left: {names}")


def _pod(cluster: Cluster) -> dict[str, Any]:
    """Return the pod of the release."""
    return cluster.get("pod", "reput-broker-a-0")
