"""Headers are encoded as Kafka's own clients do it."""

from __future__ import annotations

from reput.formats.kafka.headers import header


def test_headers_of_a_route_are_encoded_as_the_client_does():
    assert header("name", "välue") == b"\x08name\x0cv\xc3\xa4lue"
