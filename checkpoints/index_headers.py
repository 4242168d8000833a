"""Whether the index files of an output are those that its progress record was written for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.checkpoints.last_units import REMEDY, check_size
from reput.formats.errors import StoreError
from reput.formats.rocketmq import indexfile
from reput.formats.rocketmq.indexfile import HEADER_SIZE, Header

if TYPE_CHECKING:
    from pathlib import Path

    from reput.checkpoints.progress import Progress
    from reput.formats.rocketmq.broker import BrokerSettings


def check_index(directory: Path, found: Progress, settings: BrokerSettings, floor: int) -> None:
    """Refuse index files with other names, sizes or headers than the progress record says.

    Args:
        directory: of the index.
        found: the progress record.
        settings: sizes of the files.
        floor: physical offset where the log begins: what points below it may be gone.

    Raises:
        StoreError: the file, what was expected and what was found.
        OSError: no permission, the device failed.
    """
    listed = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    headers = {name: Header(*values) for name, values in found.index_before}
    if found.index_name:
        headers[found.index_name] = Header(*found.index_header)
    size = indexfile.file_size(settings.index_slots, settings.index_items)
    oldest = min(headers, default="")
    for name in listed:
        is_newer = name > found.index_name
        if name not in headers and name >= oldest and (found.clean or not is_newer):
            raise StoreError(
                directory / name, "an index file that is not in the progress record", REMEDY
            )
    for name, header in headers.items():
        path = directory / name
        if name in listed:
            check_size(str(path), size)
            _check_file(path, header, settings, found if name == found.index_name else None)
        elif name == found.index_name or header.end_offset >= floor:
            items = header.next_item - indexfile.FIRST_ITEM
            raise StoreError(path, f"no such file, expected {items} items", REMEDY)


def _check_file(
    path: Path, header: Header, settings: BrokerSettings, newest_of: Progress | None
) -> None:
    """Check a file's header and last item.

    Args:
        path: of the file.
        header: as it should be.
        settings: see `check_index`.
        newest_of: the progress record if this is the newest file; its writer may have added items.
    """
    with path.open("rb") as file:
        there = Header.unpack(file.read(HEADER_SIZE))
        file.seek(indexfile.item_position(header.next_item - 1, settings.index_slots))
        item = file.read(indexfile.ITEM_SIZE)
    may_differ = newest_of is not None and _may_follow(there, header, is_clean=newest_of.clean)
    if there != header and not may_differ:
        raise StoreError(path, f"its header is {tuple(there)}, expected {tuple(header)}", REMEDY)
    offset = indexfile.ITEM_STRUCT.unpack(item)[1]
    if header.index_count > indexfile.FIRST_ITEM and offset != header.end_offset:
        raise StoreError(
            path,
            f"its item {header.next_item - 1} names physical offset {offset}, expected "
            f"{header.end_offset}",
            REMEDY,
        )


def _may_follow(there: Header, known: Header, *, is_clean: bool) -> bool:
    """Tell whether the newest file's header may be what it is: its writer may have added items."""
    if is_clean:
        # A broker's last act on a file without items is to count to one.
        return there[:-1] == known[:-1] and there.next_item == known.next_item
    return there.next_item >= known.next_item
