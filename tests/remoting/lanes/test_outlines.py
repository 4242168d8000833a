"""An outline is a header without three numbers; two of one outline say the same, those aside."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.remoting.lanes import places
from reput.remoting.lanes.outlines import NO_OUTLINE, hash_of, outline
from tests.builders.hypotheses import examples

NUMBER = re.compile(rb"0|[1-9][0-9]{0,17}")
NAMES = [b"opaque", b"queueOffset", b"commitOffset"]


def outlined(header):
    """Return the outline and the numbers by the kernel, None for none."""
    work, vectors = np.zeros(places.WORK, np.uint8), np.zeros(places.VECTORS, np.int64)
    data = b"before" + header + b'}},:"1'
    length = outline(data, 6, 6 + len(header), work, vectors)
    if length == NO_OUTLINE:
        return None
    assert not work[length : length + 8].any()
    text = work[:length].tobytes()
    taken = vectors[places.NUMBERS : places.NUMBERS + 3].tolist()
    assert hash_of(work, length) == hash_of(work, length)
    # Put in again, each at its place, they make the header.
    again = text
    at = vectors[places.PLACES : places.PLACES + 3].tolist()
    for place, number in sorted(zip(at, taken, strict=True), reverse=True):
        again = again[:place] + str(number).encode() + again[place:]
    assert again == header
    return text, taken


def slowly(header):  # noqa: PLR0911 - each reason
    """Do the same with texts: what stands between quotes, and between those."""
    pieces = header.split(b'"')
    if b"\\" in header or len(pieces) % 2 == 0 or not pieces[-1]:
        return None
    numbers = {}
    at = 1
    while at < len(pieces):
        name = pieces[at] if pieces[at + 1].startswith(b":") else b""
        if name not in NAMES:
            at += 2
            continue
        if name in numbers:
            return None
        if name == b"opaque":
            found = re.match(
                rb":(%s)([,}])" % NUMBER.pattern.replace(b"|", b"(?![0-9])|"), pieces[at + 1]
            )
            if not found or int(found[1]) >= 1 << 31:
                return None
            numbers[name] = int(found[1])
            pieces[at + 1] = b":" + pieces[at + 1][1 + len(found[1]) :]
            at += 2
        else:
            if pieces[at + 1] != b":" or at + 3 >= len(pieces):
                return None
            if not NUMBER.fullmatch(pieces[at + 2]):
                return None
            numbers[name] = int(pieces[at + 2])
            pieces[at + 2] = b""
            at += 4
    if len(numbers) < len(NAMES):
        return None
    return b'"'.join(pieces), [numbers[name] for name in NAMES]


def header(opaque=b"7", offset=b'"12"', commit=b'"0"', more=b""):
    return (
        b'{"code":11,"extFields":{"topic":"t","queueOffset":%s,"commitOffset":%s%s},'
        b'"flag":0,"opaque":%s,"version":513}' % (offset, commit, more, opaque)
    )


def test_numbers_are_taken_out():
    text, numbers = outlined(header(b"2147483647", b'"999999999999999999"', b'"0"'))

    assert text == header(b"", b'""', b'""')
    assert numbers == [2147483647, 999999999999999999, 0]


@pytest.mark.parametrize(
    "odd",
    [
        header(b"-1"), header(b"2147483648"), header(b"07"), header(b"7.0"), header(b"7 "),
        header(b"7e1"), header(b'"7"'), header(b""), header(offset=b"12"), header(offset=b'""'),
        header(offset=b'"-1"'), header(offset=b'"+1"'), header(offset=b'"1 "'), header(offset=b'"00"'),
        header(offset=b'"1000000000000000000"'), header(more=b',"opaque":7'),
        header(more=b',"commitOffset":"1"'), header(more=b',"a":"\\n"'), header(more=b',"a":"b'),
        b"", b"{}", b'{"opaque":7}', header()[:-30], header(commit=b'"0'),
    ],
)  # fmt: skip
def test_what_has_none(odd):
    assert outlined(odd) is None
    assert slowly(odd) is None


PIECES = [
    b'"opaque":', b'"queueOffset":', b'"commitOffset":', b'"', b",", b"}", b"{", b":", b"7", b"0",
    b'"12"', b'"0"', b"\\", b'"a":"b"', b'"topic":"opaque"', b"x", b'"queueOffset":"5",',
    b'"commitOffset":"6",', b'"opaque":8,',
]  # fmt: skip


@examples(600)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join))
def test_the_kernel_and_texts_agree(text):
    for each in (text, text + b'"queueOffset":"5","commitOffset":"6","opaque":8}'):
        assert outlined(each) == slowly(each)


def test_hashes_of_like_outlines_differ():
    work = np.zeros(64, np.uint8)
    seen = set()
    for place in range(24):
        for byte in range(1, 4):
            work[:] = 0
            work[place] = byte
            seen.add(int(hash_of(work, 24)))
    assert len(seen) == 72
