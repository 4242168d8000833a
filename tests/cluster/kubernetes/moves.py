"""What becomes of a volume when a broker moves? Its reader has to follow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cluster.kubernetes.control_plane import NAMESPACE
from tests.cluster.kubernetes.objects import broker, claim, disk
from tests.cluster.kubernetes.release import CHART, WAIT
from tests.cluster.rig import expect

if TYPE_CHECKING:
    from tests.cluster.kubernetes.control_plane import Cluster


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
        "--namespace", NAMESPACE, *WAIT,
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
