"""What stands in the cluster beside the chart? Nodes, volumes, brokers, and types of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cluster.kubernetes.control_plane import NAMESPACE

if TYPE_CHECKING:
    from tests.cluster.kubernetes.control_plane import Cluster

_DRIVER = "disk.example.com"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "runAsUser": 3000,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


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
    container = {"name": "broker", "image": "broker", "securityContext": RESTRICTED}
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
