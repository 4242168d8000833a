"""Are the pods of the other modes let in? Those of a sidecar, and of the Spark operator."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.cluster.kubernetes.control_plane import NAMESPACE
from tests.cluster.kubernetes.objects import RESTRICTED
from tests.cluster.kubernetes.release import CHART, VALUES
from tests.cluster.rig import expect

if TYPE_CHECKING:
    from tests.cluster.kubernetes.control_plane import Cluster


def check_sidecar(cluster: Cluster) -> None:
    """Apply the sidecar's patch to a broker's StatefulSet, as NOTES say, and take it out again.

    The pods are admitted each time, in a namespace that lets in restricted ones only.
    """
    cluster.apply(_stateful_broker())
    more = (
        "mode=sidecar", "secretMounts[0].name=s", "secretMounts[0].mountPath=/etc/s",
        "extraVolumes[0].name=v", "extraVolumes[0].emptyDir.sizeLimit=1Mi",
        "extraVolumeMounts[0].name=v", "extraVolumeMounts[0].mountPath=/v",
        "imagePullSecrets={pull}",
    )  # fmt: skip
    settings = [part for setting in more for part in ("--set", setting)]
    cluster.run("helm", "install", "side", str(CHART), *VALUES, *settings, "-n", NAMESPACE)
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
            lambda expected=expected: containers_of(cluster, "other-0") == expected,
        )
    after = cluster.get("statefulset", "other")["spec"]["template"]["spec"]
    for key in ("containers", "volumes"):
        expect(after[key] == before[key], f"remove.yaml leaves {after[key]}")
    cluster.run("helm", "uninstall", "side", "-n", NAMESPACE)
    cluster.run("kubectl", "-n", NAMESPACE, "delete", "statefulset", "other", "--wait=false")


def _stateful_broker() -> dict[str, Any]:
    """Return a broker's StatefulSet, with volumes that the job has by the same names."""
    container = {"name": "broker", "image": "broker", "securityContext": RESTRICTED}
    # Names that the job's own volumes have in other modes.
    names = ("store", "reput-output", "config", "tmp", "secret-0")
    volumes: list[dict[str, Any]] = [{"name": name, "emptyDir": {}} for name in names]
    labels = {"app": "other"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "volumes": volumes},
    }
    return {
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


def check_spark(cluster: Cluster) -> None:
    """Install for the Spark operator; its pods are admitted, with claims, and one is scraped."""
    account = {"kind": "ServiceAccount", "apiVersion": "v1"}
    cluster.apply({**account, "metadata": {"name": "spark", "namespace": NAMESPACE}})
    more = (
        "mode=sparkApplication", "sparkApplication.serviceAccount=spark",
        "output.accessModes={ReadWriteMany}", "sparkApplication.authSecret.name=auth",
    )  # fmt: skip
    settings = [part for setting in more for part in ("--set", setting)]
    cluster.run("helm", "install", "spark", str(CHART), *VALUES, *settings, "-n", NAMESPACE)
    application = cluster.get("sparkapplication", "spark-reput-broker-a")
    cluster.apply(*(operator_pod(application, role) for role in ("driver", "executor")))
    for role in ("driver", "executor"):
        cluster.until(
            f"the {role}",
            lambda role=role: (
                containers_of(cluster, f"spark-{role}") == {f"spark-kubernetes-{role}"}
            ),
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


def operator_pod(application: dict[str, Any], role: str) -> dict[str, Any]:
    """Return the pod that Spark and its operator make of an application.

    Args:
        application: a SparkApplication.
        role: driver or executor.
    """
    spec, part = application["spec"], application["spec"][role]
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
        "metadata": {"name": f"spark-{role}", "namespace": NAMESPACE, "labels": part["labels"]},
        "spec": {
            **template,
            "containers": [container],
            "serviceAccountName": part["serviceAccount"],
            "securityContext": part["podSecurityContext"],
            "terminationGracePeriodSeconds": 1,
            "volumes": spec["volumes"],
        },
    }


def containers_of(cluster: Cluster, pod: str) -> set[str]:
    """Return the containers of a pod that is ready, an empty set for another."""
    result = cluster.try_run("kubectl", "-n", NAMESPACE, "get", "pod", pod, "-o", "json")
    if result.returncode != 0:
        return set()
    found = json.loads(result.stdout)
    conditions = found["status"].get("conditions", [])
    ready = any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
    ends = "deletionTimestamp" in found["metadata"]
    return {each["name"] for each in found["spec"]["containers"]} if ready and not ends else set()
