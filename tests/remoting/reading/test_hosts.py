"""Records that leave with another store host: nothing else in them changes."""

from __future__ import annotations

import pytest

from reput.formats.rocketmq.commitlog import ReadRules, Verdict, read
from reput.formats.rocketmq.encode import Message, encode
from reput.remoting.reading.hosts import Host, with_host

CHECKED = ReadRules(requires_property_crc=True)
V4, V6 = "10.1.2.3", "fd00::7"


def message(stored: str, born: str) -> Message:
    said = {"KEYS": "k", "UNIQ_KEY": "U"}
    return Message("t", b"body", said, store_host=stored, born_host=born, property_crc=True)


@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("stored", [V4, V6])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_host_of_the_same_family(stored, born, host):
    first = encode(message(stored, born), 100)
    second = encode(message(V4, V4), 100 + len(first))
    piece = memoryview(first + second)
    (left,) = with_host([piece], Host(host, 9))

    assert piece == first + second
    assert len(left) == len(piece)
    _, before = read(bytes(piece), 0, 100, 10_000, CHECKED)
    verdict, after = read(bytes(left), 0, 100, 10_000, CHECKED)
    assert verdict == Verdict.RECORD
    is_same = (":" in stored) == (":" in host)
    shown = f"[{host}]:9" if ":" in host else f"{host}:9"
    assert after.store_host == (shown if is_same else before.store_host)
    assert after._replace(store_host="", properties={}) == before._replace(
        store_host="", properties={}
    )
    _, last = read(bytes(left), len(first), 100 + len(first), 10_000, CHECKED)
    assert last.store_host == (shown if ":" not in host else f"{V4}:10911")
