"""Where a log ends, by kernels that check whole records: for programs that load the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.rocketmq.commitlog import Verdict
from reput.stores.following.head_chain import Chain
from reput.stores.following.log_end import EndedLog
from reput.stores.log.commitlog import CommitLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report


class CompiledLog(EndedLog):
    """`EndedLog` by kernels."""

    def __init__(
        self,
        directories: Sequence[Path],
        settings: BrokerSettings,
        report: Report,
        store: Path | None = None,
        output: Path | None = None,
    ) -> None:
        """Look at the files; see `EndedLog`."""
        self._records = CommitLog(directories, settings, store)
        # How often the files had been looked at when the kernels' were.
        self._taken = 0
        super().__init__(directories, settings, report, store, output)

    def close(self) -> None:
        """Close the files."""
        self._records.close()
        super().close()

    def chain(self, start: int) -> Chain:
        """Go from record to record inside one file; see `EndedLog`."""
        log = self._records
        if self._taken != self.taken:
            log.refresh()
            self._taken = self.taken
        file_end = log.base_of(start) + log.file_size
        verdict, position = log.hop(start, file_end, log.rules)
        begin = log.record_before(position) if position > start else None
        last = (begin, position - begin) if begin is not None else None
        is_rolled = verdict == Verdict.ROLL
        # Close its descriptors: `self` has the same files open.
        log.close()
        return Chain(position, last, is_rolled=is_rolled)
