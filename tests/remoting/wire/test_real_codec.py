"""The real codec judges: what RocketMQ's own classes make of frames, and what we make of theirs."""

from __future__ import annotations

import pytest

from tests.oracle import oracle, wire

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("version", wire.VERSIONS)
def test_commands_and_ends_are_those_of_the_real_decoder(version):
    """
    Whole frames, damaged ones, headers that no Java client writes, and typed fields.
    """
    oracle.build(version)
    differences, kinds = wire.compare(version, 1000, 7)

    assert differences == []
    assert min(kinds.values()) > 30
    assert len(kinds) == 5
