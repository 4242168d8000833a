"""What a mode renders fits together: mounts and volumes, names, claims, and a broker's own pod."""

import itertools
import json

import pytest

from helm import golden
from tests.helm.helm_tools import find_tool, run
from tests.helm.test_chart import RENDERS, objects, pods, renders

yaml = pytest.importorskip("yaml")

# A broker as operators and charts run it, with names that the job's own volumes must not have.
BROKER = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "broker"},
    "spec": {
        "serviceName": "broker",
        "selector": {"matchLabels": {"app": "broker"}},
        "template": {
            "metadata": {"labels": {"app": "broker"}, "annotations": {"a": "b"}},
            "spec": {
                "containers": [
                    {
                        "name": "broker",
                        "image": "broker",
                        "ports": [{"name": "metrics", "containerPort": 5557}],
                        "volumeMounts": [
                            {"name": "store", "mountPath": "/home/rocketmq/store"},
                            {"name": "config", "mountPath": "/etc/broker"},
                            {"name": "tmp", "mountPath": "/tmp"},
                            {"name": "secret-0", "mountPath": "/etc/tls"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "config", "configMap": {"name": "broker"}},
                    {"name": "tmp", "emptyDir": {}},
                    {"name": "secret-0", "secret": {"secretName": "broker"}},
                    {"name": "store", "emptyDir": {}},
                    {"name": "reput-output", "emptyDir": {}},
                ],
            },
        },
    },
}


def patched(tmp_path, broker, patch):
    """Return a broker's StatefulSet after a patch, as kubectl applies it."""
    (tmp_path / "broker.json").write_text(json.dumps(broker))
    (tmp_path / "patch.yaml").write_text(patch)
    result = run(
        find_tool("kubectl"), "patch", "--local", "-o", "json", "-f", tmp_path / "broker.json",
        "--patch-file", tmp_path / "patch.yaml",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def offered(text):
    """Yield the patches that a render has for brokers: to add the sidecar, and to remove it."""
    for each in objects(text, "ConfigMap"):
        if "patch.yaml" in each["data"]:
            yield each["data"]["patch.yaml"], each["data"]["remove.yaml"]


def mounting(text, tmp_path):
    """Yield for each pod of a render: names of its volumes, and its containers."""
    for each in objects(text):
        if each["kind"] in {"Deployment", "StatefulSet"}:
            spec = each["spec"]["template"]["spec"]
            claims = [c["metadata"]["name"] for c in each["spec"].get("volumeClaimTemplates", [])]
            yield [v["name"] for v in spec["volumes"]] + claims, spec["containers"]
        if each["kind"] == "Pod":
            yield [v["name"] for v in each["spec"]["volumes"]], each["spec"]["containers"]
        if each["kind"] == "SparkApplication":
            names = [v["name"] for v in each["spec"]["volumes"]]
            yield names, [each["spec"]["driver"], each["spec"]["executor"]]
    for patch, _ in offered(text):
        spec = patched(tmp_path, BROKER, patch)["spec"]["template"]["spec"]
        yield [v["name"] for v in spec["volumes"]], spec["containers"]


@renders
def test_every_mount_has_a_volume(render, tmp_path, values, settings):
    """
    In every mode: a mount without a volume, two volumes of one name or two mounts at one path are
    refused by the API server.
    """
    seen = list(mounting(render(*settings, values=values), tmp_path))

    assert seen
    for volumes, containers in seen:
        assert len(volumes) == len(set(volumes))
        for container in containers:
            mounts = container.get("volumeMounts", [])
            assert {mount["name"] for mount in mounts} <= set(volumes)
            paths = [mount["mountPath"] for mount in mounts]
            assert len(paths) == len(set(paths))


@renders
def test_every_claim_is_made_or_named_in_the_values(render, tmp_path, values, settings):
    """
    A pod that names a claim that nobody makes pends for ever.
    """
    text = render(*settings, values=values)
    made = {each["metadata"]["name"] for each in objects(text, "PersistentVolumeClaim")}
    for each in objects(text, "StatefulSet"):
        for template in each["spec"].get("volumeClaimTemplates", []):
            made.add(f"{template['metadata']['name']}-{each['metadata']['name']}-0")
    specs = list(pods(text)) + [each["spec"] for each in objects(text, "SparkApplication")]
    specs += [yaml.safe_load(patch)["spec"]["template"]["spec"] for patch, _ in offered(text)]
    named = {
        volume["persistentVolumeClaim"]["claimName"]
        for spec in specs
        for volume in spec["volumes"]
        if "persistentVolumeClaim" in volume
    }

    assert specs
    # "a" and "b" are the existing claims of RENDERS; the stores' are the brokers' own.
    assert named <= made | {"store-broker-a-0", "a", "b"}


@renders
def test_no_two_objects_have_one_name(render, values, settings):
    """
    The second one of a kind would take the place of the first one.
    """
    names = [
        (each["kind"], each["metadata"]["name"])
        for each in objects(render(*settings, values=values))
    ]

    assert len(names) == len(set(names))


STORES = ("config", "all", "verify", "tmp", "output", "executors", "a", "a-0", "a-verify", "reput")
MODES = {
    "statefulset": (),
    "sidecar": ("mode=sidecar",),
    "sparkApplication": golden.SPARK,
}
modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


@modes
def test_no_name_of_a_store_is_that_of_another_object(render, mode):
    """
    Stores may be called as parts of the chart are; names that cannot work are refused elsewhere.
    """
    settings = [
        f"stores[{number}].{key}"
        for number, name in enumerate(STORES)
        for key in (f"name={name}", "source.existingClaim=c")
    ]
    text = render(*settings, *mode, "dashboard.enabled=true")
    names = [(each["kind"], each["metadata"]["name"]) for each in objects(text)]

    assert len(names) == len(set(names))
    assert sum(name == "ConfigMap" for name, _ in names) >= len(STORES)


@modes
def test_long_names_do_not_meet(render, mode):
    """
    Two releases whose long names begin alike have no object in common in one namespace, and no name
    is too long for what Kubernetes makes of it.
    """
    first, second = (
        f"a-release-with-a-name-that-is-much-too-{end}" for end in ("long", "long-as-well")
    )
    named = [
        {
            (each["kind"], each["metadata"]["name"])
            for each in objects(render(*mode, release=release))
        }
        for release in (first, second)
    ]
    long_store = ("stores[0].name=" + "s" * 20, "stores[0].source.existingClaim=c")
    longest = max(
        len(each["metadata"]["name"])
        for each in objects(render(*mode, *long_store, release=first), None)
    )

    assert all(named)
    assert not named[0] & named[1]
    # A StatefulSet of 52 letters: its pods' label has eleven more, and 63 at most.
    for kind, name in named[0]:
        assert len(name) <= (52 if kind == "StatefulSet" else 63)
    assert longest <= 63


def test_the_sidecar_fits_a_broker_and_leaves_what_is_its(render, tmp_path):
    """
    The patch adds a container and volumes; what the broker has stays as it is, also where its names
    are those of the job's volumes in other modes. The second patch takes all of it out again.
    """
    ((patch, removal),) = offered(render("mode=sidecar", values=("extras",)))

    whole = patched(tmp_path, BROKER, patch)
    spec = whole["spec"]["template"]["spec"]
    own = BROKER["spec"]["template"]["spec"]
    assert {each["name"] for each in spec["containers"]} == {"broker", "reput", "logs"}
    assert own["containers"][0] in spec["containers"]
    for volume in own["volumes"]:
        assert volume in spec["volumes"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["hostAliases"] == [{"hostnames": ["kafka.example.com"], "ip": "10.0.0.1"}]
    assert [each["name"] for each in spec["initContainers"]] == ["wait"]
    template = whole["spec"]["template"]["metadata"]
    assert template["labels"] | {"app": "broker", "team": "messaging"} == template["labels"]

    rest = patched(tmp_path, whole, removal)["spec"]["template"]
    assert rest["spec"]["containers"] == own["containers"]
    assert rest["spec"]["volumes"] == own["volumes"]
    assert not rest["spec"].get("initContainers")
    assert rest["metadata"] == BROKER["spec"]["template"]["metadata"]


def test_the_sidecar_is_the_container_of_a_pod(render):
    """
    The very container that a pod would have, and restricted also where the broker's pod is not.
    """
    ((patch, _),) = offered(render("mode=sidecar"))
    (container,) = yaml.safe_load(patch)["spec"]["template"]["spec"]["containers"]
    (own,) = next(pods(render()))["containers"]

    for key in ("image", "args", "env", "resources"):
        assert container[key] == own[key]
    context = container["securityContext"]
    assert own["securityContext"].items() <= context.items()
    assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 3000)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_a_sidecar_that_starts_keeps_no_broker_from_being_ready(render):
    """
    A container that has not passed its startup probe is not ready; so the sidecar has none, and its
    first look at health is as late as the startup probe would have allowed.
    """
    ((patch, _),) = offered(render("mode=sidecar", "probes.startup.failureThreshold=7"))
    (container,) = yaml.safe_load(patch)["spec"]["template"]["spec"]["containers"]

    assert not {"startupProbe", "readinessProbe"} & set(container)
    assert container["livenessProbe"]["initialDelaySeconds"] == 7 * 5


def test_the_service_finds_the_port_of_each_mode(render):
    """
    Service, PodMonitor and probes name the port as the container does.
    """
    for mode in MODES.values():
        text = render(*mode, values=("extras",))
        (service,) = objects(text, "Service")
        targets = {port["targetPort"] for port in service["spec"]["ports"]}
        monitored = {
            endpoint["port"]
            for each in objects(text, "PodMonitor")
            for endpoint in each["spec"]["podMetricsEndpoints"]
        }
        (container,) = itertools.chain(
            (
                yaml.safe_load(patch)["spec"]["template"]["spec"]["containers"][0]
                for patch, _ in offered(text)
            ),
            (each["spec"]["driver"] for each in objects(text, "SparkApplication")),
            (
                each["spec"]["template"]["spec"]["containers"][0]
                for each in objects(text, "StatefulSet")
            ),
        )
        ports = {port["name"] for port in container["ports"]}

        assert len(ports) == 2
        assert ports == targets == monitored


def test_executors_and_driver_may_speak_to_each_other(render):
    """
    Each policy selects the labels that its pods have, and names the other one's.
    """
    text = render(*golden.SPARK)
    (application,) = objects(text, "SparkApplication")
    policies = {each["metadata"]["name"]: each["spec"] for each in objects(text, "NetworkPolicy")}
    pairs = (
        ("release-reput", "driver", "executor"),
        ("release-reput-executors", "executor", "driver"),
    )
    for name, who, other in pairs:
        spec = policies[name]
        labels = application["spec"][who]["labels"].items()
        assert spec["podSelector"]["matchLabels"].items() <= labels
        others = application["spec"][other]["labels"].items()
        for peers in (
            [peer for rule in spec["ingress"] for peer in rule.get("from", [])],
            [peer for rule in spec["egress"] for peer in rule.get("to", [])],
        ):
            selected = [peer["podSelector"]["matchLabels"].items() <= others for peer in peers]
            assert any(selected)


def test_each_mode_is_rendered():
    """
    The checks above see all modes, with and without what can be added.
    """
    seen = {" ".join(settings) for _, settings in RENDERS.values()}

    for mode in ("mode=sidecar", "mode=sparkApplication"):
        assert sum(mode in each for each in seen) > 1
