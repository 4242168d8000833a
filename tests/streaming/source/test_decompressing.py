"""Bodies in exports: whole ones, marked ones, and such as stand for far more than they are."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import lz4.frame
import pyarrow as pa
import zstandard

from reput.streaming.source.decompressing import BATCH_BYTES, with_plain_bodies

ROOT = Path(__file__).parents[3]


def batch_of(*bodies):
    """Rows of a number, flags and body, as the source has them among others."""
    flags, stored = zip(*bodies, strict=True)
    return pa.record_batch(
        {
            "queueOffset": pa.array(range(len(flags)), pa.int64()),
            "body": pa.array(stored, pa.binary()),
            "sysFlag": pa.array(flags, pa.int32()),
        }
    )


def rows_of(batch):
    return [row for out in with_plain_bodies(iter([batch])) for row in out.to_pylist()]


def test_a_body_that_is_not_its_senders_is_marked():
    """
    What is null in the column is good; the others say whether the body is as stored or cut.
    """
    good, cut = zlib.compress(b"good"), zlib.compress(b"a body" * 50)[:-6]
    frames = zstandard.compress(b"one") + zstandard.compress(b"two")
    rows = rows_of(
        batch_of(
            (0, b"plain"), (1, good), (1, cut), (0x201, frames), (0x401, b"what?"), (0x101, b"")
        )
    )
    assert [row["body"] for row in rows] == [b"plain", b"good", cut, b"onetwo", b"what?", b""]
    marked = [row["bodyProblem"] for row in rows]
    assert [marked[i] for i in (0, 1, 3, 5)] == [None] * 4
    assert marked[2].startswith("not decompressed: ")
    assert marked[4] == "not decompressed: unknown compression 0x400"
    assert [row["queueOffset"] for row in rows] == [0, 1, 2, 3, 4, 5]


def test_a_body_beyond_the_bound_is_marked():
    (row,) = rows_of(batch_of((0x101, lz4.frame.compress(bytes((64 << 20) + 1)))))

    assert len(row["body"]) == 64 << 20
    assert row["bodyProblem"] == "cut: more than 67108864 bytes, the rest is left out"


def test_batches_without_compressed_bodies_have_the_column_too():
    (batch,) = with_plain_bodies(iter([batch_of((0, b"a"), (0x300, b"b"))]))

    assert batch.column("bodyProblem").null_count == batch.num_rows == 2


def test_a_batch_ends_where_its_bodies_are_large():
    """
    All rows are there, in order; of small bodies many are in a batch.
    """
    body = zlib.compress(bytes(BATCH_BYTES // 4))
    sent = batch_of(*[(1, body) if i % 10 < 5 else (0, b"%d" % i) for i in range(100)])
    batches = list(with_plain_bodies(iter([sent])))

    numbers = [number for batch in batches for number in batch.column("queueOffset").to_pylist()]
    assert numbers == list(range(100))
    assert max(batch.num_rows for batch in batches) >= 8
    for batch in batches:
        assert sum(map(len, batch.column("body").to_pylist())) <= BATCH_BYTES


def test_memory_does_not_depend_on_what_senders_sent():
    """
    34 bodies of 65 KB that stand for 64 MiB each, more than 2 GiB, come through in 500 MiB.
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_BOMBS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "34\n"


_BOMBS = """
    import resource, zlib
    import psutil
    import pyarrow as pa
    from reput.streaming.source.decompressing import with_plain_bodies

    body = zlib.compress(bytes(64 << 20), 9)
    batch = pa.record_batch({
        "body": pa.array([body] * 34, pa.binary()), "sysFlag": pa.array([1] * 34, pa.int32())
    })
    limit = psutil.Process().memory_info().vms + (500 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    rows = 0
    for out in with_plain_bodies(iter([batch])):
        assert len(out.column("body")[0].as_buffer()) == 64 << 20
        rows += out.num_rows
    print(rows)
"""
