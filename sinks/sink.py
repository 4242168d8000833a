"""What the sinks of an output have in common: each takes blocks of records, in commitlog order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from reput.formats.errors import ReputError
    from reput.formats.kernels.scan import Columns


class Rows(Protocol):
    """Records for the sinks, one after the other.

    Attributes:
        columns: rows [0, `count`) are to be written.
        count: records.
        without_entry: rows of batches that no queue takes.
    """

    columns: Columns
    count: int
    without_entry: set[int]

    def end_before(self, row: int, failure: ReputError | None = None) -> None:
        """Leave out the records from a row on.

        Args:
            row: the first that is left out.
            failure: why that record cannot be written; None if it only has to wait.
        """


class Sink(Protocol):
    """Files that records go into. An output has several, and writes them in a fixed order.

    Attributes:
        name: what the time of writing is counted under, see `streaming.dispatch.stopwatch`.
    """

    @property
    def name(self) -> str:
        """Return the phase of a batch that it is."""

    def write(self, block: Rows, /) -> None:
        """Write the records of a block.

        A sink that cannot take all of them ends the block before the first one that it cannot
        take, so the sinks after it write the same records.

        Raises:
            OSError: no space, no permission.
        """

    def flush(self) -> None:
        """Sync everything that was written to disk.

        Raises:
            OSError: the device failed.
        """

    def close(self) -> None:
        """Give all maps back."""
