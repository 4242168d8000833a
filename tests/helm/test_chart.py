"""The chart: what it renders is valid, restricted, and what the job understands."""

import json
import re

import pytest

from helm import golden
from reput.streaming.settings.model.jobs import RunOptions
from reput.streaming.settings.model.option import options_of
from reput.streaming.settings.reput_toml import read_config
from tests.helm.helm_tools import CHART, ROOT, TOOLS, find_tool, run

yaml = pytest.importorskip("yaml")

VERSIONS = ("1.25.0", "1.29.0", "1.33.0", "1.37.0")
CUSTOM = "ServiceMonitor,PodMonitor,PrometheusRule,SparkApplication"
MONITORED = (
    "metrics.serviceMonitor.enabled=true",
    "prometheusRule.enabled=true",
    "dashboard.enabled=true",
)
SPARK = golden.SPARK
MOUNTED = ("secretMounts[0].name=s", "secretMounts[0].mountPath=/etc/s")
RENDERS = {
    "minimal": (("minimal",), ()),
    "server alone": (
        ("minimal",),
        (
            "serve.enabled=true", "serve.alone=true", "serve.register={ns:9876}",
            "serve.sentBack.choice=keep",
        ),
    ),
    "everything": (("test",), ()),
    "one job": (("test",), ("singleJob=true",)),
    "pod monitor": (("minimal",), ("metrics.podMonitor.enabled=true",)),
    "metrics by TLS": (
        ("minimal",),
        (
            *MOUNTED, "metrics.tls.certFile=/etc/s/a", "metrics.tls.keyFile=/etc/s/b",
            "metrics.auth.tokenFile=/etc/s/c", "metrics.serviceMonitor.enabled=true",
            "metrics.serviceMonitor.honorLabels=true",
            "metrics.serviceMonitor.sampleLimit=9", "metrics.serviceMonitor.jobLabel=a",
            "metrics.serviceMonitor.tlsConfig.serverName=a",
            "metrics.serviceMonitor.tlsConfig.ca.secret.name=a",
            "metrics.serviceMonitor.tlsConfig.ca.secret.key=a",
            "metrics.serviceMonitor.authorization.credentials.name=a",
            "metrics.serviceMonitor.authorization.credentials.key=a",
        ),
    ),
    "metrics of pods by TLS": (
        ("minimal",),
        (
            "metrics.podMonitor.enabled=true", "metrics.podMonitor.honorLabels=true",
            "metrics.podMonitor.sampleLimit=9", "metrics.podMonitor.jobLabel=a",
            "metrics.podMonitor.tlsConfig.serverName=a", "metrics.podMonitor.scheme=https",
            "metrics.podMonitor.basicAuth.username.name=a",
            "metrics.podMonitor.basicAuth.username.key=a",
        ),
    ),
    "existing claims": (
        ("test",),
        ("output.existingClaim=a", "sparkCheckpoint.existingClaim=b"),
    ),
    "sidecar": (("test",), ("mode=sidecar",)),
    "spark": (("test",), SPARK),
    "extras": (("extras",), ()),
    "extras in a sidecar": (("extras",), ("mode=sidecar",)),
    "extras of Spark": (("extras",), SPARK),
    "sidecar with claims": (
        ("extras",),
        ("mode=sidecar", "output.existingClaim=a", "sparkCheckpoint.existingClaim=b"),
    ),
    "spark with all of a pod": (
        ("extras",),
        (
            *SPARK, "sparkCheckpoint.persistent=true", "sparkApplication.authSecret.name=auth",
            "hostUsers=false", "dnsPolicy=Default", "runtimeClassName=a", "priorityClassName=b",
            "dnsConfig.nameservers={10.0.0.2}", "topologySpreadConstraints[0].maxSkew=1",
            "topologySpreadConstraints[0].topologyKey=zone",
            "topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
        ),
    ),
    "all of a pod": (
        ("extras",),
        (
            "hostUsers=false", "dnsPolicy=Default", "runtimeClassName=a", "priorityClassName=b",
            "dnsConfig.nameservers={10.0.0.2}", "topologySpreadConstraints[0].maxSkew=1",
            "topologySpreadConstraints[0].topologyKey=zone",
            "topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
        ),
    ),
}  # fmt: skip
renders = pytest.mark.parametrize(("values", "settings"), RENDERS.values(), ids=RENDERS)


def objects(text, kind=None):
    """Return the objects of a render."""
    found = [each for each in yaml.safe_load_all(text) if each]
    return [each for each in found if kind in {None, each["kind"]}]


def schema_location():
    find_tool("schemas")
    name = "{{.NormalizedKubernetesVersion}}{{.StrictSuffix}}/{{.ResourceKind}}{{.KindSuffix}}.json"
    return f"{TOOLS}/schemas/{name}"


def kubeconform(text, version):
    return run(
        find_tool("kubeconform"), "-strict", "-summary", "-kubernetes-version", version,
        "-skip", CUSTOM, "-schema-location", schema_location(),
        input=text,
    )  # fmt: skip


def test_lint():
    """
    Helm's own linter, warnings as errors.
    """
    for path in (CHART / "ci").glob("*-values.yaml"):
        result = run(find_tool("helm"), "lint", "--strict", str(CHART), "--values", str(path))
        assert result.returncode == 0, result.stdout + result.stderr


def test_units():
    """
    helm-unittest: every template and toggle.
    """
    result = run(find_tool("helm-unittest"), "--strict", str(CHART))

    assert result.returncode == 0, result.stdout
    assert int(re.search(r"Tests: +(\d+) passed", result.stdout)[1]) > 40


def test_every_template_has_a_unit_test():
    """
    A new template is not forgotten.
    """
    tested = " ".join(path.read_text() for path in (CHART / "tests").glob("*.yaml"))
    templates = list((CHART / "templates").rglob("*.yaml"))

    assert len(templates) > 10
    assert [path.name for path in templates if path.name not in tested] == []


@pytest.mark.parametrize("version", VERSIONS)
@renders
def test_kubernetes_takes_it(render, values, settings, version):
    """
    Strictly: a field that Kubernetes does not know is a mistake that it would drop in silence.
    """
    result = kubeconform(render(*settings, values=values, version=version), version)

    assert result.returncode == 0, result.stdout + result.stderr
    assert "Invalid: 0, Errors: 0" in result.stdout


def test_a_field_that_kubernetes_does_not_know_is_seen(render):
    """
    The check above can fail.
    """
    text = render().replace("serviceName:", "serviceNaem:")

    assert kubeconform(text, VERSIONS[-1]).returncode == 1


@renders
def test_operators_take_it(render, values, settings):
    """
    The types of the Prometheus operator and of the Spark operator, unknown fields refused.
    """
    text = render(*settings, values=values)
    result = run(find_tool("customtypes"), input=text)
    count = sum(each["kind"] in CUSTOM.split(",") for each in objects(text))

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == f"{count} checked, 0 failed\n"


def test_kube_score(render):
    """
    Nothing critical but what is meant: one writer has one replica.
    """
    # One replica by design has no anti-affinity; RocketMQ's user is 3000; a tag does not change.
    ignored = (
        "statefulset-has-host-podantiaffinity", "container-security-context-user-group-id",
        "container-image-pull-policy",
    )  # fmt: skip
    command_line = [find_tool("kube-score"), "score", "--output-format", "ci", "-"]
    for each in ignored:
        command_line[2:2] = ["--ignore-test", each]
    text = "\n---\n".join(
        part for part in render(values=("test",)).split("\n---\n") if "coreos.com" not in part
    )
    result = run(*command_line, input=text)

    assert "[CRITICAL]" not in result.stdout, result.stdout


@pytest.mark.parametrize("name", golden.RENDERS)
def test_golden(name):
    """
    A change of a template is seen as what it changes in a cluster.
    """
    find_tool("helm")
    expected = (golden.GOLDEN / f"{name}.yaml").read_text()

    assert golden.render(name) == expected, "if it is meant: python -m helm.golden"


def closed(schema, path=""):
    """Yield the objects of a schema that name properties and take others as well."""
    if schema.get("properties") and schema.get("additionalProperties") is not False:
        yield path
    for key in ("properties", "$defs"):
        for name, each in schema.get(key, {}).items():
            yield from closed(each, f"{path}/{name}")
    if schema.get("items"):
        yield from closed(schema["items"], f"{path}[]")


def test_the_schema_is_closed():
    """
    A misspelt value is an error everywhere; only a CSI volume's own attributes are open.
    """
    schema = json.loads((CHART / "values.schema.json").read_text())

    assert list(closed(schema)) == ["/store/source/csi"]


def test_every_value_is_in_the_schema_and_explained():
    """
    What can be set is checked, and has a sentence.
    """
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    assert set(values) | {"global"} == set(schema["properties"])


def test_readme_is_what_helm_docs_makes(tmp_path):
    """
    The table of values is the one of values.yaml.
    """
    name = "README.check.md"
    made = CHART / name
    try:
        result = run(
            find_tool("helm-docs"), "--chart-search-root", str(CHART), "--output-file", name,
            "--sort-values-order", "file", "--skip-version-footer",
        )  # fmt: skip
        text = made.read_text()
    finally:
        made.unlink(missing_ok=True)

    assert result.returncode == 0, result.stderr
    assert text == (CHART / "README.md").read_text()


def pods(text):
    """Yield the pod specifications of a render."""
    for each in objects(text):
        if each["kind"] in {"Deployment", "StatefulSet"}:
            yield each["spec"]["template"]["spec"]
        if each["kind"] == "Pod":
            yield each["spec"]


ALLOWED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
}  # fmt: skip


def test_pods_are_restricted(render):
    """
    What Pod Security "restricted" asks for; volumes of claims and CSI pass as well.
    """
    specs = list(pods(render(values=("test",))))

    assert len(specs) == 4
    for spec in specs:
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        for volume in spec["volumes"]:
            assert set(volume) - {"name"} <= ALLOWED_VOLUMES
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"]["drop"] == ["ALL"]
            assert context["readOnlyRootFilesystem"] is True
            mounts = {each["name"]: each for each in container["volumeMounts"]}
            assert all(m.get("readOnly") for name, m in mounts.items() if name.startswith("store"))


@renders
def test_the_job_understands_its_configuration(render, tmp_path, values, settings):
    """
    The reput.toml that is rendered is read by the code that reads it in the cluster.
    """
    names = []
    is_alone = "serve.alone=true" in settings
    shown = "serve.yaml" if is_alone else "configmap.yaml"
    for each in objects(render(*settings, values=values, show=shown)):
        if each["kind"] != "ConfigMap":
            continue
        for name, text in each["data"].items():
            (tmp_path / name).write_text(text)
        configs = read_config(tmp_path / "reput.toml", needs_output=not is_alone)
        names += [config.name for config in configs]

    assert names[0] == "broker-a"
    assert len(set(names)) == len(names)


def test_the_job_understands_its_arguments(render):
    """
    Every option that the chart gives is one of `reput run`.
    """
    settings = (
        *MOUNTED, "run.deleteExpired=true", "run.flushSeconds=5",
        "metrics.tls.certFile=/etc/s/a", "metrics.tls.keyFile=/etc/s/b",
        "metrics.tls.clientCaFile=/etc/s/c", "metrics.auth.tokenFile=/etc/s/d",
        "metrics.auth.basicAuthFile=/etc/s/e",
    )  # fmt: skip
    (spec,) = [
        each for each in pods(render(*settings)) if each["containers"][0]["args"][0] == "run"
    ]
    known = {
        name for each in options_of(RunOptions) for name in (each.flag, each.option.off) if name
    }
    given = [re.match("--[a-z-]+", each)[0] for each in spec["containers"][0]["args"][1:]]

    assert set(given) <= known


def test_rules_are_those_that_are_tested(render):
    """
    With the chart's default numbers, its rules are the plain rule file that promtool tests.
    """
    text = render(*MONITORED, "prometheusRule.job=.*reput.*", show="prometheusrule.yaml")
    for theirs, plain in (('namespace=~"rocketmq"', 'namespace=~".*"'), ("rocketmq/", ".*/")):
        assert theirs in text
        text = text.replace(theirs, plain)
    (rule,) = objects(text, "PrometheusRule")

    assert rule["spec"] == yaml.safe_load(
        (ROOT / "helm" / "monitoring" / "reput.rules.yaml").read_text()
    )


def test_the_dashboard_is_the_one_that_is_tested(render):
    """
    Byte for byte: no template language gets at Grafana's.
    """
    (board,) = [
        each for each in objects(render(*MONITORED), "ConfigMap") if "reput.json" in each["data"]
    ]

    assert json.loads(board["data"]["reput.json"]) == json.loads(
        (CHART / "files" / "dashboard.json").read_text()
    )
