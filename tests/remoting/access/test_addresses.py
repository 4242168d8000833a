"""White addresses of `plain_acl.yml`; `test_real_acl` compares them with a broker's."""

from __future__ import annotations

import ipaddress

import pytest

from reput.remoting.access.addresses import of_peer, parse


def has(text, peer):
    return parse(text).has(ipaddress.ip_address(peer))


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("10.0.0.1", ["10.0.0.1"], ["10.0.0.2", "::a00:1"]),
        ("10.0.0.*", ["10.0.0.0", "10.0.0.255"], ["10.0.1.0"]),
        ("10.0.1-9.*", ["10.0.1.7", "10.0.9.7"], ["10.0.0.7", "10.0.10.7"]),
        ("10.0.0.{1,3}", ["10.0.0.1", "10.0.0.3"], ["10.0.0.2"]),
        ("10.0.0.1,fe80::2", ["10.0.0.1", "fe80::2"], ["fe80::1"]),
        ("fe80::1:1-200", ["fe80::1:1", "fe80::1:200"], ["fe80::1:201", "fe80::2:1"]),
        ("fe80::{1,2}", ["fe80::1", "fe80:0::2"], ["fe80::3"]),
        ("*", ["10.0.0.1", "fe80::1"], []),
        ("  ", [], ["10.0.0.1"]),
    ],
)
def test_a_text_allows_these_and_not_those(text, inside, outside):
    assert all(has(text, peer) for peer in inside)
    assert not any(has(text, peer) for peer in outside)


def test_two_colons_before_a_range_are_one_part_as_in_a_broker():
    """
    A broker that let all of fe80:0 in with this text lets in the same here.
    """
    assert has("fe80::*", "fe80:0:7::9")
    assert not has("fe80::*", "fe80:1::9")


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0",
        "*.1.2.3",
        "10.0.0.9-1",
        "10.0.*",
        "10.0.0.{1",
        "fe80::*:1",
        "::*",
        "1.2.3.4, 5.6.7.8",
    ],
)
def test_what_a_broker_cannot_use_is_refused(text):
    with pytest.raises(ValueError, match=r"\S"):
        parse(text)


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("10.0.0.1:4711", "10.0.0.1"),
        ("[::1]:4711", "::1"),
        ("0:0:0:0:0:0:0:1:4711", "::1"),
        ("[fe80::1%eth0]:4711", "fe80::1"),
        ("[::ffff:10.0.0.1]:4711", "10.0.0.1"),
    ],
)
def test_peers_of_either_family_are_read(peer, address):
    assert of_peer(peer) == ipaddress.ip_address(address)


def test_a_peer_without_an_address_is_in_no_range_but_in_all():
    assert of_peer("client.sock") is None
    assert not parse("10.0.0.*").has(None)
    assert parse("*").has(None)
