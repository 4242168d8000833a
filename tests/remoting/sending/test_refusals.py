"""Writes are refused, each with the same sentence."""

from __future__ import annotations

import pytest

from reput.remoting.sending import refusals
from reput.remoting.wire.codes import ResponseCode
from reput.remoting.wire.command import Command
from tests.builders.channels import KeptChannel

WRITES = (10, 310, 320, 324, 325, 37, 370, 17, 18, 200, 225, 207, 215, 25)


@pytest.mark.parametrize("code", WRITES)
def test_a_write_is_refused(code):
    answer = refusals.handlers()[code](Command(code), KeptChannel())

    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == "read-only store served by reput"


def test_what_only_reads_is_not():
    """
    Nor is what changes our own state: offsets, members and locks.
    """
    reads = {11, 12, 14, 15, 21, 26, 28, 29, 30, 31, 33, 34, 35, 36, 38, 41, 42, 46, 201, 222, 361}
    assert not reads & refusals.handlers().keys()
