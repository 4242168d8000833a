"""Outputs are, byte for byte, what real brokers wrote from the same commitlogs."""

from __future__ import annotations

import struct

import pytest

from reput.streaming.dispatch.dispatcher import rebuild
from tests.builders.goldens import GOLDENS, OUTPUTS

# A torn last record: the broker died with entries of it; its next start rolls them back.
DIRTY = "unclean-dirty"
# The same store after that start, and the same log dispatched into nothing by the real broker.
RECOVERED = "unclean-recovered"
FROM_NOTHING = "abort-only-log"
# Their broker's checkpoint is not that of a clean stop.
NOT_STOPPED = {DIRTY, "unclean.live"}


def files_below(root, kind):
    base = root / kind
    found = {p.relative_to(base).as_posix(): p.read_bytes() for p in base.rglob("*") if p.is_file()}
    if kind == "index":
        # Names are the wall clock of their making; their order counts.
        return {str(i): found[name] for i, name in enumerate(sorted(found))}
    return found


def longs(root):
    return struct.unpack(">6q", (root / "checkpoint").read_bytes()[:48])


@pytest.fixture
def rebuilt(golden, tmp_path):
    def build(version, scenario):
        store = golden(version, scenario)
        source = store.copy_input(tmp_path / "store")
        rebuild(source, tmp_path / "output", broker_version=version, broker_conf=store.conf)
        return store.path, tmp_path / "output"

    return build


@pytest.mark.parametrize(("version", "scenario"), GOLDENS)
def test_an_output_is_what_the_broker_wrote(rebuilt, golden, version, scenario):
    """
    Queues, extensions and index from the log alone equal the broker's own, whatever is in it.
    """
    broker, output = rebuilt(version, scenario)
    from_nothing = golden(version, FROM_NOTHING).path
    expected = dict.fromkeys(OUTPUTS, from_nothing if scenario == DIRTY else broker)
    if scenario == RECOVERED:
        # The broker indexed the records around its last full file again (docs/formats).
        expected["index"] = from_nothing

    for kind in OUTPUTS:
        theirs, ours = files_below(expected[kind], kind), files_below(output, kind)
        assert sorted(ours) == sorted(theirs)
        differing = [name for name, data in theirs.items() if ours[name] != data]
        assert differing == []


@pytest.mark.parametrize(
    ("version", "scenario"), [golden for golden in GOLDENS if golden[1] not in NOT_STOPPED]
)
def test_a_checkpoint_has_the_brokers_times(rebuilt, version, scenario):
    """
    After a clean stop the timestamps of queues and index are the broker's. 5.5 sets that of the
    queues, and its offset, at a thorough flush only: in these stores nothing was put after it.
    """
    broker, output = rebuilt(version, scenario)

    theirs, ours = longs(broker), longs(output)

    assert ours[1:3] == theirs[1:3]
    if version.startswith("5.5"):
        assert ours[5] == theirs[5]
