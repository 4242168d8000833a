"""A store whose broker checked requests does not become open by being served elsewhere."""

from __future__ import annotations

import pytest

from reput.remoting.access.errors import AccessError
from reput.remoting.access.openness import announcement, is_loopback, refuse_open


@pytest.mark.parametrize(
    ("properties", "remedy"),
    [
        ({"aclEnable": "true"}, r"has aclEnable=true.*conf/plain_acl\.yml.*--open-access"),
        ({"authenticationEnabled": "true"}, r"authenticationEnabled=true.*RocksDB.*--acl"),
        ({"authorizationEnabled": " TRUE "}, r"authorizationEnabled=true.*RocksDB"),
    ],
)
def test_a_guarded_store_is_not_served_openly_by_accident(properties, remedy):
    with pytest.raises(AccessError, match=remedy):
        refuse_open(properties, "broker.conf")


@pytest.mark.parametrize("properties", [{}, {"aclEnable": "false"}, {"brokerName": "true"}])
def test_a_store_that_was_open_may_be_served_openly(properties):
    assert refuse_open(properties, "broker.conf") is None


def test_only_this_machine_reaches_loopback():
    assert all(map(is_loopback, ["127.0.0.1", "127.8.0.1", "::1", "[::1]", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "", "10.0.0.1", "broker.example"]))


def test_an_open_server_says_what_others_can_do():
    open_to_all = announcement(["0.0.0.0"], has_accounts=False, has_tls=False, knows_clients=False)
    encrypted = announcement(["0.0.0.0"], has_accounts=False, has_tls=True, knows_clients=False)
    in_the_clear = announcement(["10.0.0.1"], has_accounts=True, has_tls=False, knows_clients=False)

    assert "0.0.0.0: anybody who can connect reads every message, and anybody" in open_to_all
    assert "reads every message. Give" in encrypted
    assert "10.0.0.1 without TLS" in in_the_clear


def test_a_guarded_or_local_server_needs_no_warning():
    def said(hosts, *flags):
        names = ("has_accounts", "has_tls", "knows_clients")
        return announcement(hosts, **dict(zip(names, flags, strict=True)))

    assert said(["127.0.0.1", "::1"], False, False, False) is None
    assert said(["0.0.0.0"], True, True, False) is None
    assert said(["0.0.0.0"], False, True, True) is None
