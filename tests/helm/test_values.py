"""Values: what is wrong is refused with its path and what to write; what is right arrives as written."""

import dataclasses
import json
import re

import pytest

from helm import golden, values_schema
from helm.monitoring.alerts.rules import ALERTS
from reput.formats.errors import UsageError
from reput.formats.rocketmq import broker
from reput.sinks.kafka.client.settings import KafkaSecurity, KafkaSettings
from reput.streaming.settings import kafka as kafka_config
from reput.streaming.settings import kafka_pass_through
from reput.streaming.settings.config import read_broker_conf
from reput.streaming.settings.reput_toml import read_config
from tests.helm.helm_tools import CHART, ROOT, find_tool, run
from tests.helm.test_chart import objects

yaml = pytest.importorskip("yaml")

KAFKA = {"enabled": True, "settings": {"bootstrap": "kafka:9092"}}
MOUNT = {"secretMounts": [{"name": "s", "mountPath": "/etc/s"}]}
TLS = {"tls": {"certFile": "/etc/s/a", "keyFile": "/etc/s/b"}}
STORE = {"name": "a", "source": {"existingClaim": "c"}}
SPARK = {"mode": "sparkApplication", "sparkApplication": {"serviceAccount": "s"}}


def template(values, tmp_path, *more):
    """Render the chart with values, beside those of one store; returns how it went."""
    path = tmp_path / "values.json"
    path.write_text(json.dumps({"stores": [STORE]} | values))
    return run(find_tool("helm"), "template", "r", str(CHART), "--values", str(path), *more)


def kafka(**settings):
    return {"kafka": {"enabled": True, "settings": {"bootstrap": "kafka:9092"} | settings}}


def store(**keys):
    return {"stores": [STORE | keys]}


# What helm or the chart answers: where, and what to write.
WRONG = {
    "a misspelt value": ({"run": {"tial": "visible"}}, "'tial' not allowed"),
    "a value that there is not": ({"replicas": 2}, "additional properties 'replicas' not allowed"),
    "a word": ({"run": {"tail": "all"}}, "value must be one of 'visible', 'flushed'"),
    "a number": ({"run": {"threads": 0}}, "minimum: got 0, want 1"),
    "a size": ({"run": {"maxBatchBytes": "lots"}}, "/run/maxBatchBytes"),
    "a name": (store(name="Broker_A"), "/stores/0/name"),
    "two sources": (
        store(source={"existingClaim": "c", "hostPath": "/x"}), "/stores/0/source",
    ),
    "a way out": (
        store(source={"existingClaim": "c", "directory": "../x"}), "/stores/0/source/directory",
    ),
    "grace": ({"terminationGracePeriodSeconds": 1}, "minimum: got 1, want 30"),
    "a claim's size": ({"output": {"size": "big"}}, "/output/size"),
    "bytes": ({"output": {"size": "50GB"}}, "/output/size"),
    "a digest": ({"image": {"digest": "latest"}}, "/image/digest"),
    "a port of root": ({"metrics": {"port": 80}}, "/metrics/port"),
    "a share": (
        {"prometheusRule": {"thresholds": {"retentionRatio": 2}}}, "maximum: got 2, want 1",
    ),
    "a mode": ({"mode": "deployment"}, "/mode"),
    "no store": ({"stores": []}, "name at least one store"),
    "two stores of one name": ({"stores": [STORE, STORE]}, "two are called a"),
    "an unknown version": (store(brokerVersion="5.9"), "/stores/0/brokerVersion"),
    "a version that is a number": (store(brokerVersion=5.3), "got number, want string"),
    "a store called dashboard": (store(name="dashboard"), "call the store broker-dashboard"),
    "a store called as a sidecar": (store(name="a-sidecar"), "call the store broker-a"),
    "a number that JSON has no digits for": (
        store(brokerConf={"a": 9007199254740993}), "/stores/0/brokerConf/a",
    ),
    "a character that is none": (store(brokerConf={"a": "b\0c"}), "/stores/0/brokerConf/a"),
    "Kafka without its address": (
        {"kafka": {"enabled": True}}, "kafka.settings.bootstrap: say where Kafka is",
    ),
    "Kafka without its port": (
        kafka(bootstrap="kafka"),
        'kafka.settings.bootstrap: "kafka" has no host or no port; write host:port',
    ),
    "Kafka at the end of nothing": (
        kafka(bootstrap="kafka:9092,"), 'kafka.settings.bootstrap: "" has no host',
    ),
    "Kafka as a list": (
        kafka(bootstrap=["a:1", "b:1"]), "/kafka/settings/bootstrap': got array, want string",
    ),
    "a misspelt setting of Kafka": (
        kafka(retry_secnds=1), "'/kafka/settings': additional properties 'retry_secnds' not allowed",
    ),
    "a mode of Kafka": (
        kafka(mode="exactly-once"), "value must be one of 'transactions', 'idempotent'",
    ),
    "a secret of Kafka": (kafka(password="p"), "name a file in password_file"),
    "a secret of Kafka's key": (kafka(ssl_password="p"), "name a file in key_password_file"),
    "a table of Kafka": (kafka(topic={"a": "b"}), "/kafka/settings/topic"),
    "a client's setting that is ours": (
        kafka(client={"acks": "all"}),
        "'/kafka/settings/client': additional properties 'acks' not allowed",
    ),
    "too many requests at once": (
        kafka(client={"max_in_flight_requests_per_connection": 9}), "maximum: got 9, want 5",
    ),
    "Kafka's password without a mount": (
        kafka(protocol="SASL_SSL", mechanism="PLAIN", username="u", password_file="/etc/k/p"),
        ("kafka.settings.password_file: /etc/k/p is below no mount of the pod; add its Secret to "
        "secretMounts"),
    ),
    "Kafka's password without its variable": (
        kafka(protocol="SASL_SSL", mechanism="PLAIN", username="u", password_env="KAFKA"),
        "kafka.settings.password_env: the job has no environment variable KAFKA",
    ),
    "SASL without a mechanism": (kafka(protocol="SASL_SSL"), "kafka.settings.mechanism"),
    "one port twice": (
        {"metrics": {"sparkPort": 9464}}, "metrics.sparkPort: 9464 is metrics.port",
    ),
    "half a budget": ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "/maxUnavailable"),
    "more than all": ({"podDisruptionBudget": {"maxUnavailable": "101%"}}, "/maxUnavailable"),
    "an eviction policy": (
        {"podDisruptionBudget": {"unhealthyPodEvictionPolicy": "Never"}}, "'IfHealthyBudget'",
    ),
    "an alert that there is not": (
        {"prometheusRule": {"disabled": ["ReputBehindByte"]}}, "'ReputBehindBytes'",
    ),
    "a runbook that is not a URL": (
        {"prometheusRule": {"runbookUrl": "docs/runbook.md"}}, "/prometheusRule/runbookUrl",
    ),
    "an argument that has a value": (
        {"run": {"extraArgs": ["--metrics-port=1"]}},
        "run.extraArgs: --metrics-port is what metrics.port sets; set it there",
    ),
    "an argument in two parts": (
        {"run": {"extraArgs": ["--kafka", "topic=x"]}},
        "run.extraArgs: --kafka is what kafka.settings sets",
    ),
    "a port of a probe": (
        {"probes": {"liveness": {"httpGet": {"port": 0}}}}, "/probes/liveness/httpGet/port",
    ),
    "a misspelt probe": ({"probes": {"liveness": {"periodSecnds": 5}}}, "'periodSecnds'"),
    "a probe that asks twice": (
        {"probes": {"liveness": {"exec": {"command": ["true"]}}}},
        "probes.liveness: it has httpGet and exec; give it one of",
    ),
    "a probe that asks nothing": (
        {"probes": {"liveness": {"httpGet": None}}}, "probes.liveness: it has nothing to ask",
    ),
    "a misspelt context": ({"securityContext": {"readOnlyRootFS": True}}, "'readOnlyRootFS'"),
    "a user that is a name": (
        {"podSecurityContext": {"runAsUser": "root"}}, "/podSecurityContext/runAsUser",
    ),
    "modes of one claim that do not mix": (
        {"output": {"accessModes": ["ReadWriteOnce", "ReadWriteOncePod"]}},
        "output.accessModes: ReadWriteOncePod goes with no other mode",
    ),
    "a test that could not mount": (
        {"output": {"accessModes": ["ReadWriteOncePod"]}}, "set verify.enabled to false",
    ),
    "a mount without a volume": (
        {"extraVolumeMounts": [{"name": "x", "mountPath": "/x"}]},
        "extraVolumeMounts: no volume is called x; add it to extraVolumes",
    ),
    "a volume of our name": (
        {"extraVolumes": [{"name": "tmp", "emptyDir": {}}]},
        "extraVolumes: the pod has a volume tmp already",
    ),
    "a mount of our place": (
        {"secretMounts": [{"name": "s", "mountPath": "/tmp/"}]},
        "secretMounts: /tmp is mounted already, for tmpSize",
    ),
    "a certificate without a mount": (
        {"metrics": TLS}, "metrics.tls.certFile: /etc/s/a is below no mount",
    ),
    "a certificate without its key": (
        MOUNT | {"metrics": {"tls": {"certFile": "/etc/s/a"}}}, "certFile and keyFile together",
    ),
    "a scrape without the token": (
        MOUNT | {"metrics": {
            "auth": {"tokenFile": "/etc/s/t"}, "serviceMonitor": {"enabled": True},
        }},
        "metrics.serviceMonitor: metrics.auth is set, so every scrape would be refused",
    ),
    "a scrape with a password for a token": (
        MOUNT | {"metrics": {
            "auth": {"tokenFile": "/etc/s/t"},
            "podMonitor": {
                "enabled": True, "basicAuth": {"username": {"name": "s", "key": "u"}},
            },
        }},
        "metrics.podMonitor.basicAuth: the job knows a token only",
    ),
    "a scrape without a certificate": (
        MOUNT | {"metrics": {
            "tls": TLS["tls"] | {"clientCaFile": "/etc/s/c"}, "podMonitor": {"enabled": True},
        }},
        "metrics.podMonitor.tlsConfig: with metrics.tls.clientCaFile Prometheus needs",
    ),
    "a scrape in the clear": (
        MOUNT | {"metrics": TLS | {"podMonitor": {"enabled": True, "scheme": "http"}}},
        "metrics.podMonitor.scheme: the port speaks TLS",
    ),
    "a scrape longer than its interval": (
        {"metrics": {"podMonitor": {"enabled": True, "scrapeTimeout": "1m30s"}}},
        "metrics.podMonitor.scrapeTimeout: 1m30s is longer than the interval, 15s",
    ),
    "executors without a common output": (
        SPARK, ("output.accessModes: executors on several nodes write the output; set it to "
        "[ReadWriteMany]"),
    ),
    "a driver without an account": (
        {"mode": "sparkApplication", "output": {"existingClaim": "o"}},
        "sparkApplication.serviceAccount: the driver needs",
    ),
    "a driver without room": (
        SPARK | {"output": {"existingClaim": "o"}, "resources": {"limits": {"memory": "1Gi"}}},
        ("resources.limits.memory: the driver's heap (spark.driverMemory), the rest of its JVM and "
        "Python need 1536Mi or more"),
    ),
    "a sidecar elsewhere": (
        {"mode": "sidecar", "nodeSelector": {"disk": "ssd"}},
        "nodeSelector: in mode sidecar the pod is the broker's; set it there",
    ),
    "a sidecar of several brokers": (
        {"mode": "sidecar", "singleJob": True, "stores": [STORE, STORE | {"name": "b"}]},
        "singleJob: a sidecar dispatches the store of its own broker",
    ),
    "a job that is not a regular expression": (
        {"prometheusRule": {"job": "["}}, 'prometheusRule.job: "[" is not a regular expression',
    ),
    "a job of which only both parts are one": (
        {"prometheusRule": {"job": "a)|(b"}}, 'prometheusRule.job: "a)|(b" is not a regular',
    ),
    "a job that ends in a backslash": (
        {"prometheusRule": {"job": "a\\"}}, 'prometheusRule.job: "a\\\\" is not a regular',
    ),
    "a job in quotes": (
        {"prometheusRule": {"job": '"reput"'}}, 'prometheusRule.job: "\\"reput\\"" has a quote',
    ),
    "a sidecar with a claim of its own": (
        {"mode": "sidecar", "sparkCheckpoint": {"persistent": True}},
        "sparkCheckpoint.persistent: a patch cannot add a claim",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("values", "message"), WRONG.values(), ids=WRONG)
def test_wrong_values_are_refused_with_a_reason(values, message, tmp_path):
    """
    Helm says where and what, before anything is changed in the cluster, and never shows a template.
    """
    result = template(values, tmp_path)

    assert result.returncode != 0
    assert message in result.stderr.replace("\\n", " ")
    assert "nil pointer" not in result.stderr
    assert "wrong type for value" not in result.stderr


RIGHT = {
    "a version with its patch": store(brokerVersion="5.3.3"),
    "half the pods": {"podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"}},
    "two addresses": kafka(bootstrap="a-0.kafka:9092, [::1]:9093"),
    "an argument without a value here": {"run": {"extraArgs": ["--metrics-by-queue"]}},
    "a port by its name": {"probes": {"liveness": {"httpGet": {"port": "metrics"}}}},
    "another probe": {
        "probes": {"startup": None, "liveness": {"httpGet": None, "exec": {"command": ["true"]}}},
    },
    "the system's certificates": kafka(
        protocol="SSL", ca_file="/etc/ssl/certs/ca-certificates.crt"
    ),
    "a variable": kafka(
        protocol="SASL_SSL", mechanism="PLAIN", username="u", password_env="K"
    ) | {"extraEnv": [{"name": "K", "value": "v"}]},
    "a driver with just enough": SPARK
    | {"output": {"existingClaim": "o"}, "resources": {"limits": {"memory": 1610612736}}},
}  # fmt: skip


@pytest.mark.parametrize("values", RIGHT.values(), ids=RIGHT)
def test_right_values_are_taken(values, tmp_path):
    """
    The refusals do not go too far.
    """
    result = template(values, tmp_path)

    assert result.returncode == 0, result.stderr


def test_the_schema_says_what_the_code_takes():
    """
    Settings of `[kafka]`, versions of brokers and names of alerts are derived from the code.
    """
    for path, text in values_schema.generated():
        assert path.read_text("utf-8") == text, "python -m helm.values_schema"


def test_every_setting_of_kafka_has_a_schema_of_its_kind():
    """
    The kinds that the schema is derived by are those of the settings' own fields.
    """
    schema = values_schema.kafka()["properties"]
    fields = {
        each.name: each
        for kind in (KafkaSettings, KafkaSecurity)
        for each in dataclasses.fields(kind)
    }
    kinds = {"bool": "boolean", "float": "number"}
    for name in fields.keys() - {"security", "client", "bootstrap"}:
        wanted = kinds.get(fields[name].type)
        if wanted:
            assert schema[name]["type"] == wanted, name
        if fields[name].type == "int":
            assert "integer" in schema[name]["type"], name
        default = fields[name].default
        if "enum" in schema[name]:
            assert default in schema[name]["enum"]

    assert set(schema) == (fields.keys() - {"security"}) | kafka_config.SECRETS
    assert set(schema["client"]["properties"]) == set(kafka_pass_through.PASSED)


def accepted(name, value):
    """Return whether the job takes a setting of `[kafka]`."""
    try:
        kafka_config.kafka_settings({"bootstrap": "k:1", name: value})
    except UsageError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transaction_seconds", 0), ("retry_seconds", 0), ("request_seconds", -1),
        ("batch_bytes", 0), ("max_lag", 0), ("batch_bytes", "64k"), ("batch_bytes", "64kb "),
        ("batch_bytes", "64x"), ("new_topic_partitions", 30_001), ("new_topic_partitions", 3),
        ("include", "a,b"), ("include", ["a", "b"]), ("include", [1]), ("compression", "zstd"),
        ("compression", "zip"), ("system_topics", True), ("client_id", "a"), ("client_id", 5),
        ("client", {"send_buffer_bytes": 5}), ("client", {"acks": 1}), ("unknown", 1),
    ],
)  # fmt: skip
def test_the_schema_and_the_job_take_the_same(name, value, tmp_path):
    """
    What helm lets through is not refused in a crash loop, and what the job takes is let through.
    """
    # A blank after a size is the only thing that the job alone takes.
    if isinstance(value, str) and value != value.strip():
        value = value.strip()
    result = template(kafka(**{name: value}), tmp_path)

    assert (result.returncode == 0) == accepted(name, value), result.stderr


def test_every_alert_may_be_disabled(tmp_path):
    """
    By the name that it has in Prometheus.
    """
    names = [alert.as_rule()["alert"] for alert in ALERTS]
    result = template({"prometheusRule": {"enabled": True, "disabled": names}}, tmp_path)
    (rule,) = objects(result.stdout, "PrometheusRule")

    assert len(names) > 10
    assert not any(
        "alert" in each for group in rule["spec"]["groups"] for each in group["rules"] or []
    )


@pytest.mark.parametrize("job", [r"reput\.a|reput-\d+", "a: b # c", "(?i)reput.*"])
def test_rules_are_valid_for_every_regular_expression(job, tmp_path):
    """
    It is written within a string of PromQL; Prometheus refuses the whole file for one bad rule.
    """
    result = template({"prometheusRule": {"enabled": True, "job": job}}, tmp_path)
    (rule,) = objects(result.stdout, "PrometheusRule")
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rule["spec"]))
    checked = run(find_tool("promtool"), "check", "rules", str(path))
    rules = [each for group in rule["spec"]["groups"] for each in group["rules"]]

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert any('job=~"' + job.replace("\\", "\\\\") + '"' in each["expr"] for each in rules)
    assert any(
        each["labels"] == {"scope": f"default/{job}"}
        for each in rules
        if "record" in each and "labels" in each
    )


@pytest.mark.parametrize("version", broker.VERSIONS)
def test_every_version_may_be_given(version, tmp_path):
    """
    Each that the job writes for.
    """
    assert template(store(brokerVersion=version), tmp_path).returncode == 0


def test_a_version_counts_against_the_index_where_that_is_asked_for(tmp_path):
    """
    The broker was upgraded and has not written since.
    """
    asked = template(store(brokerVersion="5.3", anyVersion=True), tmp_path).stdout
    by_default = template(store(brokerVersion="5.3"), tmp_path).stdout

    assert "any_version = true" in asked
    assert "any_version" not in by_default


CONF = {
    "brokerName": ("broker-a", "broker-a"),
    "fraction": (2.5, "2.5"),
    "small": (1e-7, "1e-07"),
    "whole": (1073741824, "1073741824"),
    "large": (9007199254740991, "9007199254740991"),
    "negative": (-3, "-3"),
    "truth": (True, "true"),
    "text": ("DefaultCluster", "DefaultCluster"),
    "digits": ("00012345678901234567890", "00012345678901234567890"),
    "lines": ("a\nb\r\tc\fd", "a\nb\r\tc\fd"),
    "windows": ("C:\\store\\u0041", "C:\\store\\u0041"),
    "blank": ("  led by blanks", "  led by blanks"),
    "signs": ('a=b:c#d!e"f\'g\\"', 'a=b:c#d!e"f\'g\\"'),
    "letters": ("Zürich 東京", "Zürich 東京"),
    "empty": ("", ""),
}


def test_settings_of_a_broker_arrive_as_they_were_written(tmp_path):
    """
    Numbers with their digits, texts with line breaks, backslashes and other alphabets: what the job
    reads from broker.conf, by java.util.Properties' rules, is the value.
    """
    values = store(brokerConf={name: value for name, (value, _) in CONF.items()})
    (config,) = [
        each
        for each in objects(template(values, tmp_path).stdout, "ConfigMap")
        if "reput.toml" in each["data"]
    ]
    path = tmp_path / "broker.conf"
    path.write_text(config["data"]["broker-a.conf"], "latin-1")
    read = read_broker_conf(path)
    # The smallest one may be written in two ways.
    assert float(read.pop("small")) == CONF["small"][0]

    assert read == {name: text for name, (_, text) in CONF.items() if name != "small"}


def test_settings_of_kafka_arrive_as_they_were_written(tmp_path):
    """
    Fractions, big numbers, lists, truth values and the client's own settings, in reput.toml.
    """
    values = kafka(
        retry_seconds=0.5, transaction_bytes=8589934592, include=["orders<*>", "a&b"],
        id_prefix='"\\u0041', system_topics=True, client={"api_version": [2, 8], "reconnect_backoff_ms": 50},
    )  # fmt: skip
    (config,) = objects(template(values, tmp_path).stdout, "ConfigMap")
    path = tmp_path / "reput.toml"
    path.write_text(config["data"]["reput.toml"])
    (read,) = read_config(path)

    assert read.kafka.retry_seconds == 0.5
    assert read.kafka.transaction_bytes == 8589934592
    assert read.kafka.include == ("orders<*>", "a&b")
    assert read.kafka.id_prefix == '"\\u0041'
    assert read.kafka.system_topics is True
    assert read.kafka.client == {"api_version": [2, 8], "reconnect_backoff_ms": 50}


def test_every_option_that_the_chart_gives_is_refused_among_further_arguments(tmp_path):
    """
    The later one of two would win: whatever the chart can render is in the list of its own options.
    """
    values = MOUNT | {
        "run": {
            "flushSeconds": 5, "maxBatchBytes": "1g", "deleteExpired": True, "cluster": "c",
            "failOnDataLoss": False,
        },
        "metrics": {
            "sparkPort": 4040, "tls": TLS["tls"] | {"clientCaFile": "/etc/s/c"},
            "auth": {"tokenFile": "/etc/s/t", "basicAuthFile": "/etc/s/p"},
        },
    }  # fmt: skip
    options = set()
    for each in (values, {}):
        result = template(each, tmp_path)
        (job,) = objects(result.stdout, "StatefulSet")
        options |= {
            argument.partition("=")[0]
            for argument in job["spec"]["template"]["spec"]["containers"][0]["args"][1:]
        }

    assert len(options) > 20
    for option in options:
        result = template({"run": {"extraArgs": [f"{option}=1"]}}, tmp_path)
        assert f"run.extraArgs: {option} is what" in result.stderr, option


NOTES = {
    "no image": ({}, "image.registry is not set"),
    "no runbook": ({"prometheusRule": {"enabled": True}}, "set prometheusRule.runbookUrl"),
    "a setting that nothing depends on": (
        store(brokerConf={"mappedFileSizeComitLog": 1, "maxIndexNum": 5}),
        "Are they spelt right? mappedFileSizeComitLog\n",
    ),
    "a claim that the pod holds": (
        store(brokerPod={"matchLabels": {"a": "b"}}), "delete pod r-reput-a-0",
    ),
    "a secret in the clear": (
        MOUNT | {"metrics": {"auth": {"tokenFile": "/etc/s/t"}}}, "sends its secret in the clear",
    ),
    "a port of Spark's": (
        MOUNT | {"metrics": TLS | {"sparkPort": 4040}}, "do not protect it",
    ),
    "a sidecar's removal": ({"mode": "sidecar"}, "remove\\.yaml"),
    "a common secret": (
        SPARK | {"output": {"existingClaim": "o"}}, "sparkApplication.authSecret",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("values", "message"), NOTES.values(), ids=NOTES)
def test_notes_say_what_is_missing(values, message, tmp_path):
    """
    What only the reader can add or look at is said after an installation.
    """
    path = tmp_path / "values.json"
    path.write_text(json.dumps({"stores": [STORE]} | values))
    result = run(
        find_tool("helm"), "install", "r", str(CHART), "--values", str(path), "--dry-run=client"
    )

    assert result.returncode == 0, result.stderr
    assert message in result.stdout.partition("NOTES:")[2]


def test_notes_are_short_where_nothing_is_missing(tmp_path):
    """
    An image of a registry is not asked for again.
    """
    path = tmp_path / "values.json"
    path.write_text(json.dumps({"stores": [STORE], "image": {"registry": "r.example.com"}}))
    result = run(
        find_tool("helm"), "install", "r", str(CHART), "--values", str(path), "--dry-run=client"
    )

    assert result.returncode == 0, result.stderr
    assert "image.registry" not in result.stdout.partition("NOTES:")[2]


@pytest.mark.parametrize("page", ["docs/kubernetes.md", "helm/reput/README.md"])
def test_the_values_that_pages_show_are_taken(page, tmp_path):
    """
    What can be copied from a page renders.
    """
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)

    assert blocks
    for block in blocks:
        result = template(yaml.safe_load(block), tmp_path)
        assert result.returncode == 0, result.stderr


def test_golden_renders_have_every_mode():
    """
    A change of any mode is seen.
    """
    text = "".join(path.read_text() for path in golden.GOLDEN.glob("*.yaml"))

    for kind in ("kind: StatefulSet", "kind: SparkApplication", "  patch.yaml: |"):
        assert kind in text
