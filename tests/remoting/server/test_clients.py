"""Stock Java clients read what is served: every message once, and those alone that they want."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.builders.served import dispatched, messages
from tests.builders.servers import LOOPBACK, serving
from tests.oracle import oracle

pytestmark = [pytest.mark.oracle]
COUNT, QUEUES = 1000, 4
CLIENTS = ["5.5.0", "4.9.8"]


def consume(
    names: int, version: str, kind: str, directory: Path, *, wanted: str = "*", count: int = COUNT
) -> list[list[str]]:
    """Return what a consumer got: queue id, queue offset, physical offset, tags, body bytes."""
    oracle.build(version)
    target = Path(oracle.__file__).parent / "target" / version
    taken = directory / f"taken-{kind}"
    java = ["java", "-Xmx256m", f"-Duser.home={directory}"]
    opened = ("java.nio", "java.lang", "sun.nio.ch", "jdk.internal.ref")
    java += [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in opened]
    classes = f"{target}/classes:{target}/lib/*"
    words = (f"{LOOPBACK}:{names}", kind, "t", f"g-{kind}", wanted, str(count), "60", str(taken))
    environment = {k: v for k, v in os.environ.items() if k != "NAMESRV_ADDR"}
    done = subprocess.run(
        [*java, "-cp", classes, "oracle.Consume", *words],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line.split() for line in taken.read_text().splitlines()]


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
