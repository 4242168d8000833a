"""What was passed over is kept: its bytes and a report, never all of them in memory."""

from __future__ import annotations

import tracemalloc

import pytest

from reput.checkpoints import quarantine
from reput.checkpoints.quarantine import Skipped

PLACE = Skipped("store", "log/0", 7, 7, 7 + (64 << 20), "a record that is none")
PIECE = 1 << 20


@pytest.mark.parametrize(
    ("pieces", "kept"), [([], None), ([b""], None), ([b"", b"ab", b"", b"c"], b"abc")]
)
def test_its_bytes_are_kept_if_there_are_any(tmp_path, pieces, kept):
    found = quarantine.keep(tmp_path, PLACE, pieces)

    assert (None if found is None else found.read_bytes()) == kept
    assert quarantine.load(tmp_path) == [PLACE]
    assert len(list((tmp_path / ".reput/quarantine").iterdir())) == 1 + (kept is not None)


def test_a_place_of_a_whole_file_takes_no_more_memory_than_its_pieces(tmp_path):
    pieces = (bytes([number]) * PIECE for number in range(64))
    tracemalloc.start()
    try:
        found = quarantine.keep(tmp_path, PLACE, pieces)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found is not None
    assert found.stat().st_size == 64 * PIECE
    assert found.read_bytes()[::PIECE] == bytes(range(64))
    assert most < 8 * PIECE
