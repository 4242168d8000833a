"""What a user can say about Kafka: in a reput.toml, on the command line, and where secrets are."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from kafka import errors

from reput.formats.errors import KafkaError, UsageError
from reput.sinks.kafka.client import consumer, producer, topics
from reput.sinks.kafka.client.settings import KafkaSecurity, KafkaSettings
from reput.sinks.kafka.position import progress
from reput.streaming.settings.config import store_config
from reput.streaming.settings.kafka import access_of, from_fields, kafka_settings, pairs
from reput.streaming.settings.kafka_pass_through import client_settings
from reput.streaming.settings.reput_toml import read_config

STORE = '[[store]]\nname = "a"\npath = "store"\noutput = "out"\n'


class TestSettings:
    def test_only_the_address_is_needed(self):
        assert kafka_settings({"bootstrap": "kafka:9092"}) == KafkaSettings("kafka:9092")

    def test_a_file_has_them_for_all_its_stores(self, tmp_path):
        text = STORE + STORE.replace('"a"', '"b"').replace('"out"', '"out-b"')
        text += '[kafka]\nbootstrap = "k:1"\ninclude = ["a*", "b"]\nmax_lag = "2g"\n'
        text += 'retry_seconds = 5\nsystem_topics = true\nca_file = "ca.pem"\nprotocol = "SSL"\n'
        (tmp_path / "reput.toml").write_text(text)

        first, second = read_config(tmp_path / "reput.toml")

        assert first.kafka == second.kafka
        assert first.kafka == KafkaSettings(
            "k:1", include=("a*", "b"), max_lag=2 << 30, retry_seconds=5.0, system_topics=True,
            security=KafkaSecurity(protocol="SSL", ca_file=str(tmp_path / "ca.pem")),
        )  # fmt: skip

    def test_texts_of_the_command_line_mean_the_same(self):
        values = pairs(["bootstrap=k:1", "include=a*, b", "max_lag=2g", "retry_seconds=5",
                        "system_topics=true"])  # fmt: skip
        assert kafka_settings(values) == KafkaSettings(
            "k:1", include=("a*", "b"), max_lag=2 << 30, retry_seconds=5.0, system_topics=True
        )

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({}, "bootstrap is missing"),
            ({"nonsense": 1}, "nonsense: unknown; known are"),
            ({"partition_by": "luck"}, "it is queue or key"),
            ({"products": ["message"]}, "it is messages, arrivals or both"),
            ({"include": 3}, "is not a list of texts"),
            ({"retry_seconds": "soon"}, "is not a number of seconds"),
            ({"retry_seconds": "nan"}, "is not a number of seconds"),
            ({"request_seconds": 0}, "is not a number of seconds"),
            ({"batch_bytes": "much"}, "is not a number of bytes"),
            ({"system_topics": "perhaps"}, "neither true nor false"),
            ({"topic": "{queue}"}, "the fields {topic} and {store}"),
            ({"topic": ""}, "not a name that a Kafka topic can have"),
            ({"tags": "A ||"}, "such as TagA"),
            ({"transaction_seconds": 70}, "has to be above"),
            ({"protocol": "SASL_SSL"}, "mechanism and username are missing"),
            ({"mechanism": "PLAIN"}, "needs protocol SASL"),
        ],
    )
    def test_what_cannot_be_is_said(self, values, message):
        base = {"bootstrap": "k:1"} if values else {}
        with pytest.raises(UsageError, match=message):
            kafka_settings({**base, **values})

    @pytest.mark.parametrize("name", ["password", "sasl_plain_password", "key_password"])
    def test_a_secret_in_the_open_is_refused_and_not_repeated(self, name):
        with pytest.raises(UsageError, match="secrets are not read from settings") as said:
            kafka_settings({"bootstrap": "k:1", name: "s3cret"})
        assert "s3cret" not in str(said.value)

    def test_they_go_through_json_to_an_executor(self):
        settings = kafka_settings({"bootstrap": "k:1", "products": "messages,arrivals"})
        fields = json.loads(json.dumps(dataclasses.asdict(settings)))

        assert from_fields(fields) == settings

    def test_a_table_that_is_none(self, tmp_path):
        (tmp_path / "reput.toml").write_text('kafka = "x"\n' + STORE)
        with pytest.raises(UsageError, match=r"write \[kafka\]"):
            read_config(tmp_path / "reput.toml")


class TestSecrets:
    def security(self, **values: str) -> KafkaSecurity:
        return KafkaSecurity("SASL_PLAINTEXT", "PLAIN", "me", **values)

    def test_from_a_file(self, tmp_path):
        (tmp_path / "secret").write_text("s3cret\n")
        access = access_of(self.security(password_file=str(tmp_path / "secret")))

        assert access["sasl_plain_password"] == "s3cret"

    def test_from_the_environment(self, monkeypatch):
        monkeypatch.setenv("KAFKA_PASSWORD", "s3cret")
        access = access_of(self.security(password_env="KAFKA_PASSWORD"))

        assert access["sasl_plain_password"] == "s3cret"

    def test_what_is_missing_is_named(self, tmp_path):
        with pytest.raises(UsageError, match="give one of password_env and password_file"):
            access_of(self.security())
        with pytest.raises(UsageError, match="no environment variable NOT_THERE"):
            access_of(self.security(password_env="NOT_THERE"))
        with pytest.raises(UsageError, match="cannot be read: No such file"):
            access_of(self.security(password_file=str(tmp_path / "x")))
        with pytest.raises(UsageError, match="no such file"):
            access_of(KafkaSecurity("SSL", ca_file=str(tmp_path / "ca")))

    def test_a_configuration_shows_no_secret(self, monkeypatch):
        """
        What is printed, logged or sent to an executor has only the place of a secret.
        """
        monkeypatch.setenv("KAFKA_PASSWORD", "s3cret")
        config = dataclasses.replace(
            store_config(Path("a"), Path("b")),
            kafka=KafkaSettings("k:1", security=self.security(password_env="KAFKA_PASSWORD")),
        )
        assert "s3cret" not in repr(config)
        assert config.kafka_access()["sasl_plain_password"] == "s3cret"


class Tokens:
    """What makes tokens, as an operator would write it."""

    def token(self) -> str:
        return "t"


class TestClient:
    """Settings of kafka-python itself, which arrive at its clients as they are given."""

    VALUES = {  # noqa: RUF012 - of a test
        "metadata_max_age_ms": 1234, "api_version": [3, 9], "proxy_url": "socks5h://p:1",
        "sasl_kerberos_service_name": "k", "reconnect_backoff_max_ms": 77,
    }  # fmt: skip

    def test_a_table_and_the_command_line_say_the_same(self, tmp_path):
        text = STORE + '[kafka]\nbootstrap = "k:1"\nclient_id = "me"\n[kafka.client]\n'
        text += "".join(f"{name} = {json.dumps(value)}\n" for name, value in self.VALUES.items())
        (tmp_path / "reput.toml").write_text(text)
        (config,) = read_config(tmp_path / "reput.toml")
        told = [f"client.{name}={value if isinstance(value, str) else json.dumps(value)}"
                for name, value in self.VALUES.items()]  # fmt: skip

        assert config.kafka.client == self.VALUES
        assert kafka_settings(pairs(["bootstrap=k:1", "client_id=me", *told])) == config.kafka
        again = json.loads(json.dumps(dataclasses.asdict(config.kafka)))
        assert from_fields(again) == config.kafka

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("acks", 1, "exactly once depends on it"),
            ("transactional_id", "x", "exactly once depends on it"),
            ("enable_idempotence", False, "exactly once depends on it"),
            ("isolation_level", "read_uncommitted", "exactly once depends on it"),
            ("sasl_plain_password", "secret", "has the setting password_file for it"),
            ("request_timeout_ms", 5, "has the setting request_seconds for it"),
            ("nonsense", 5, "not passed on; known are"),
            ("max_in_flight_requests_per_connection", 6, "it is 1 to 5"),
            ("proxy_url", {}, "is a table"),
        ],
    )
    def test_what_would_break_the_promise_is_refused(self, name, value, message):
        with pytest.raises(UsageError, match=message) as said:
            kafka_settings({"bootstrap": "k:1", "client": {name: value}})
        assert "secret" not in str(said.value)

    @pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "GSSAPI"])
    def test_they_arrive_at_all_of_its_clients(self, tmp_path, monkeypatch, mechanism):
        """
        Producer, consumer and administrator get them, and what the mechanism needs.
        """
        monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
        is_oauth = mechanism == "OAUTHBEARER"
        own = {"token_provider": f"{__name__}:Tokens"} if is_oauth else {}
        settings = kafka_settings({
            "bootstrap": "k:1", "client_id": "me", "client": dict(self.VALUES),
            "protocol": "SASL_SSL", "mechanism": mechanism, **own,
        })  # fmt: skip
        config = dataclasses.replace(
            store_config(tmp_path / "s", tmp_path / "o", name="a"), kafka=settings
        )
        given = []

        def made(**options):
            given.append(options)
            raise errors.KafkaConnectionError

        for module, name in (
            (producer, "KafkaProducer"),
            (consumer, "KafkaConsumer"),
            (topics, "KafkaAdminClient"),
        ):
            monkeypatch.setattr(module, name, made)
        access = config.kafka_access()
        for call in (
            lambda: producer.Client(settings, access, "x"),
            lambda: progress.last_of(settings, access, "x", 0),
            lambda: topics.make_topic(settings, access),
        ):
            with pytest.raises(KafkaError):
                call()

        assert len(given) == 3
        for options in given:
            wanted = {**self.VALUES, "api_version": (3, 9), "client_id": "me",
                      "sasl_mechanism": mechanism, "security_protocol": "SASL_SSL"}  # fmt: skip
            assert wanted.items() <= options.items()
            assert isinstance(options.get("sasl_oauth_token_provider"), Tokens) == is_oauth

    @pytest.mark.parametrize(
        ("provider", "message"),
        [
            ("no.such.module:x", "cannot be made: No module"),
            (f"{__name__}:Missing", "cannot be made: module"),
            ("tokens", "cannot be made"),
            ("collections:OrderedDict", "has no method token"),
        ],
    )
    def test_a_token_provider_that_is_none_is_refused(self, provider, message):
        security = KafkaSecurity("SASL_SSL", "OAUTHBEARER", token_provider=provider)
        with pytest.raises(UsageError, match=message):
            access_of(security)

    def test_kerberos_without_its_package_is_said(self, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
        with pytest.raises(UsageError, match="needs the Python package gssapi"):
            access_of(KafkaSecurity("SASL_SSL", "GSSAPI"))

    def test_a_mechanism_and_what_it_needs_go_together(self):
        values = {"bootstrap": "k:1", "protocol": "SASL_SSL"}
        with pytest.raises(UsageError, match="OAUTHBEARER and token_provider go together"):
            kafka_settings({**values, "mechanism": "OAUTHBEARER"})
        with pytest.raises(UsageError, match="mechanism and username are missing"):
            kafka_settings({**values, "mechanism": "PLAIN"})
        with pytest.raises(UsageError, match="is not a whole number up to 30000"):
            kafka_settings({**values, "mechanism": "GSSAPI", "new_topic_partitions": -1})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("api_version", "abc", r"a version of Kafka, such as \"2.6\""),
        ("api_version", 2.6, "a version of Kafka"),
        ("client_dns_lookup", "bogus", "use_all_dns_ips or resolve_canonical"),
        ("proxy_url", "x", "SCHEME://HOST:PORT"),
        ("proxy_url", "ftp://x:1", "SCHEME://HOST:PORT"),
        ("reconnect_backoff_ms", "a", "a whole number from 0 on"),
        ("metadata_max_age_ms", 0, "a whole number from 1 on"),
        ("send_buffer_bytes", True, "a whole number"),
        ("sasl_kerberos_name", 5, "a text"),
    ],
)
def test_a_value_that_the_client_would_not_take_is_said_at_once(
    name: str, value: object, said: str
) -> None:
    """
    It was taken for a Kafka that is away, and tried for ever.
    """
    with pytest.raises(UsageError, match=rf"\[kafka.client\] {name}: .*{said}"):
        kafka_settings({"bootstrap": "k:1", "client": {name: value}})


@pytest.mark.parametrize("text", ["2.6", "2.10", "[2, 6]", "2.6.1"])
def test_a_version_of_the_command_line_is_what_kafka_python_takes(text: str) -> None:
    found = kafka_settings({"bootstrap": "k:1", "client.api_version": text})
    numbers = tuple(int(n) for n in text.strip("[]").replace(",", ".").split("."))

    assert client_settings(found.client) == {"api_version": numbers}


def test_a_list_of_revoked_certificates_has_to_be_there() -> None:
    found = kafka_settings({"bootstrap": "k:1", "client": {"ssl_crlfile": "/nope"}})
    with pytest.raises(UsageError, match="ssl_crlfile: /nope: no such file"):
        client_settings(found.client)
