"""Stock Java clients read what is served: every message once, and those alone that they want."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.builders.java_clients import consuming
from tests.builders.served import dispatched, messages
from tests.builders.servers import serving

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = [pytest.mark.oracle]
COUNT, QUEUES = 1000, 4
CLIENTS = ["5.5.0", "4.9.8"]


def consume(
    names: int,
    version: str,
    kind: str,
    directory: Path,
    *,
    wanted: str = "*",
    count: int = COUNT,
    prefix: Sequence[str] = (),
) -> list[list[str]]:
    """Return what a consumer got: queue id, queue offset, physical offset, tags, body bytes."""
    with consuming(
        names, version, kind, directory, wanted=wanted, count=count, prefix=prefix
    ) as consumer:
        return consumer.taken()


@pytest.mark.parametrize("version", CLIENTS)
@pytest.mark.parametrize("kind", ["push", "orderly", "broadcasting", "lite"])
def test_a_consumer_gets_each_message_once(tmp_path, version, kind):
    store = dispatched(messages(COUNT, queues=QUEUES, size=100), tmp_path)
    expected = {
        (queue, offset): record.physical_offset
        for queue in range(QUEUES)
        for offset, record in store.messages("t", queue, 0)
    }
    with serving(store) as running:
        taken = consume(running.names, version, kind, tmp_path)

    got = [((int(queue), int(offset)), int(place)) for queue, offset, place, *_ in taken]
    assert Counter(got) == Counter(expected.items())
    if kind in {"orderly", "lite"}:
        for queue in range(QUEUES):
            offsets = [offset for (of, offset), _ in got if of == queue]
            assert offsets == sorted(offsets)


@pytest.mark.parametrize("version", CLIENTS)
@pytest.mark.parametrize(
    ("kind", "wanted"), [("push", "T1 || T2"), ("sql", "a BETWEEN 10 AND 19 OR TAGS = 'T2'")]
)
def test_a_consumer_gets_what_it_wants(tmp_path, version, kind, wanted):
    store = dispatched(messages(COUNT, queues=QUEUES), tmp_path)
    passes = {
        "push": lambda i: i % 3 in {1, 2},
        "sql": lambda i: 10 <= i <= 19 or i % 3 == 2,
    }[kind]
    expected = {divmod(i, QUEUES)[::-1] for i in range(COUNT) if passes(i)}
    with serving(store, enablePropertyFilter="true") as running:
        taken = consume(running.names, version, kind, tmp_path, wanted=wanted, count=len(expected))

    assert Counter((int(queue), int(offset)) for queue, offset, *_ in taken) == Counter(expected)
