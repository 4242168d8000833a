"""Looks at a commitlog's files each second while many wait for answers: it never waits itself.

What a look finds is not always what was left there on purpose. A broker that cuts its log removes
files one by one; a file of another kind may lie among them for a while. As long as files that were
there are still there, they are the log's.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from reput.formats.errors import FileSizeError, StoreError
from reput.stores.log import listing
from reput.stores.log.files import GAP_SECONDS, LogChangedError, LogFiles

if TYPE_CHECKING:
    from reput.stores.log.listing import LogFile

# The files are listed this often, whatever the times of their directories say.
_LISTED_SECONDS = 10.0


class FollowedFiles(LogFiles):
    """The files of a commitlog.

    Attributes:
        problem: why files that have come are not looked at; None if nothing is wrong.
        dropped: how often a file was closed because it went, or is another one now.
    """

    dropped = 0

    problem: StoreError | FileSizeError | None = None
    _gap_since: float | None = None

    def look_on_if_due(self) -> bool:
        """Look at the files again where files came or went, or none have for a while.

        Returns:
            Whether it looked.

        Raises:
            StoreError: see `look_on`.
            FileSizeError: likewise.
        """
        listed = self._listed
        is_old = listed is None or time.monotonic() - listed.at > _LISTED_SECONDS
        is_due = is_old or (listed and listed.signs != listing.signs_of(self.directories))
        if is_due:
            self.look_on()
        return bool(is_due)

    def look_on(self) -> None:
        """Look at the files again as `refresh` does, without a wait.

        Raises:
            StoreError: none of them is there any longer, and no others in their place.
            FileSizeError: likewise, and those in their place are not whole.
        """
        listed = listing.Listed.now(self.directories)
        try:
            found = self._found()
            listing.require_files(found, self.directories, self.file_size)
        except (StoreError, FileSizeError) as error:
            found = self._left()
            if not found:
                raise
            self.problem = error
        else:
            self.problem = None
        if self._is_in_between(found):
            return
        self._listed = listed
        self._take_log(found)

    def _is_in_between(self, found: dict[int, LogFile]) -> bool:
        """Tell whether files have gone in between just now: the others may go too."""
        now = time.monotonic()
        if not self._has_new_gap(found):
            self._gap_since = None
        elif self._gap_since is None:
            self._gap_since = now
        return self._gap_since is not None and now - self._gap_since < GAP_SECONDS

    def _left(self) -> dict[int, LogFile]:
        """Return those of the files that are still there."""
        found = {}
        for base, path in self._files.items():
            with contextlib.suppress(FileNotFoundError):
                file = listing.file_at(path)
                if file.inode == self._inodes[base]:
                    found[base] = file
        return found

    def leave(self) -> None:
        """Close the files: they are not there, and what comes in their place is another log."""
        self.close()
        self.dropped += 1

    def _take_log(self, found: dict[int, LogFile]) -> None:
        opened = len(self._open)
        self._take(found)
        self.dropped += len(self._open) < opened
        # Where a file goes meanwhile, the next look is at what is there then.
        with contextlib.suppress(LogChangedError):
            left = self._left_behind.first(self)
            if left is not None:
                self._take({base: file for base, file in found.items() if base < left})
