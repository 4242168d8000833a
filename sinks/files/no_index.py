"""The index of an output that has none: `messageIndexEnable` is off."""

from __future__ import annotations

from reput.sinks.files.index import NO_INDEX, IndexPosition


class NoIndex:
    """Stands where `IndexSink` would, and has no files.

    Attributes:
        names: of files.
        position: where it ends.
        inserted: items inserted and files begun.
        flushed_timestamp: end timestamp of the newest full file.
        fill: how full the newest file is.
    """

    names: tuple[str, ...] = ()
    position: IndexPosition = NO_INDEX
    inserted = (0, 0)
    flushed_timestamp = 0
    fill = 0.0

    def remember(self, flushed_timestamp: int) -> None:
        """Forget it: no file follows."""

    def before(self, _floor: int) -> tuple[()]:
        """Return no files."""
        return ()

    def finish(self, *, writes_first_count: bool) -> None:
        """Leave nothing."""

    def flush(self) -> None:
        """Sync nothing."""

    def close(self) -> None:
        """Give nothing back."""
