"""Blocks of records, made of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.streaming.dispatch.blocks.block import Block

if TYPE_CHECKING:
    from reput.formats.kernels.scan import Columns


def block_of(columns: Columns, count: int) -> Block:
    """Return a block with these columns as its records."""
    block = Block(0)
    block.columns, block.count = columns, count
    return block
