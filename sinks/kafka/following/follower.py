"""Follows a log that was cut, or has expired: returns the position from which sending resumes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from reput.formats.errors import KafkaError
from reput.sinks.kafka.client.settings import CONTINUE
from reput.sinks.kafka.following.clocks import OldEnd, new_before
from reput.sinks.kafka.following.comparison import Comparison
from reput.sinks.kafka.following.ends import LogEnd
from reput.sinks.kafka.position.start import same_until
from reput.sinks.kafka.position.trail import Chunk
from reput.stores.log import trail as points_of_log

if TYPE_CHECKING:
    from reput.sinks.kafka.extent import Extent
    from reput.sinks.kafka.link import Link
    from reput.sinks.kafka.position.position import Position
    from reput.sinks.kafka.position.trail import Trail
    from reput.sinks.kafka.reports import Reports


class Follower:
    """Follows one store's log.

    Attributes:
        comparison: of the log with what was sent of it.
    """

    def __init__(
        self, link: Link, reports: Reports, trail: Trail, *, fail_on_data_loss: bool
    ) -> None:
        """Begin.

        Args:
            link: the store and its Kafka.
            reports: to the operator.
            trail: of what this process sends.
            fail_on_data_loss: stop where records expired before they were sent; else continue.
        """
        self._link = link
        self._reports = reports
        self._trail = trail
        self._fail_on_data_loss = fail_on_data_loss
        self._log_end = LogEnd(link.log)
        self._old_end = OldEnd(link.log)
        self.comparison = Comparison(link, trail, self._log_end)

    def begin(self, position: Position, partition: int) -> None:
        """Begin at a position that was found.

        Args:
            position: it.
            partition: of the progress topic, where it stands.
        """
        self._log_end.forget_limit()
        self.comparison.begin(partition)
        self._trail.begin(_empty_chunk(position.chunk + 1, position.end))

    def follow(self, known: Position, extent: Extent) -> Position:
        """Return a position as it is, or where the log parts from what was sent before it.

        Args:
            known: the position.
            extent: of dispatch.

        Raises:
            KafkaError: the log has been cut, and the operator wants to know.
        """
        if known.is_unsent:
            return self._follow_start(known, extent)
        return self._follow_sent(known, extent)

    def _follow_sent(self, known: Position, extent: Extent) -> Position:
        """Go back to where the log parts from what was sent of it, if it does.

        The digests tell the record from which on the log is another one; see `new_before` for
        what is before them.
        """
        followed = replace(known, cut=extent.last_cut or known.cut)
        common = self._common_end(known, extent)
        if common >= known.end and known.accepted < 0:
            return followed
        parted, new = self.comparison.parting(known, extent), None
        if parted is not None:
            new = new_before(self._link.log, known, parted, common, dict(extent.gaps))
            if parted.same and parted.end >= known.end and new is None:
                # It was cut and written again with the same records, or another output has
                # reported it before.
                return replace(followed, accepted=-1)
        if new is not None:
            common, parted = new, None
        elif parted is not None and not parted.same and parted.start > common:
            # A log is cut in one place, so records that are the same vouch for all before them.
            parted = None
        kept = common
        if parted is not None:
            common, kept = parted.end, min(parted.kept, parted.end)
        if known.accepted < 0 or kept < known.accepted:
            # A cut that was accepted before is not reported twice.
            self._accept(known, common, is_exact=parted is not None)
        if parted is not None and not parted.differs:
            # What was cut may come back as it was, and was sent: sending resumes after it.
            return replace(followed, accepted=kept)
        last = parted.last if parted is not None else None
        return self._gone_back(followed, common, min(known.since, common), last)

    def _common_end(self, known: Position, extent: Extent) -> int:
        """Return up to where the log is the one that was sent, without reading it all.

        Three things tell of a cut: a point of the position that is no longer in the log, a cut that
        dispatch has found, and a log that ends before the position. Points alone are not enough:
        where fewer bytes were written than were cut, they still stand there.
        """
        log = self._link.log
        places = extent.cut_since(known.cut)
        found = points_of_log.check(log, known.points)
        if not found.is_same:
            places.append(found.common.end if found.common is not None else log.min_offset)
        if extent.end < known.end and (end := self._log_end.before(known, extent)) is not None:
            places.append(end)
        # What has expired cannot be sent again.
        return max(min(places, default=known.end), log.min_offset)

    def _accept(self, known: Position, common: int, *, is_exact: bool) -> None:
        """Report that the log was cut, where the operator accepts that.

        Raises:
            KafkaError: the operator wants to know first.
        """
        what = (
            f"{self._link.name}: the log has other records than those that Kafka was sent. What "
            f"was sent of physical offsets {max(common, known.since)} to {known.end} is "
            "no longer in the log, and stays in Kafka"
        )
        if not is_exact:
            what = (
                f"{what}. Some of it may still be there: this far back, it is not known which "
                "single records were sent (docs/kafka.md says how far it is known), so all from "
                "there on is sent again"
            )
        self._reports.add_loss()
        if self._link.settings.on_truncation != CONTINUE:
            raise KafkaError(
                f"{what}. To continue with the log's new records, which may have the queue offsets "
                'of those, set on_truncation = "continue" for one start'
            )
        self._reports.add(what)

    def _follow_start(self, known: Position, extent: Extent) -> Position:
        """Follow cuts before a place from which on nothing was sent yet.

        What the log has instead has come since, so sending begins where it was cut.
        """
        log = self._link.log
        end = self._log_end.before(known, extent) if extent.end < known.end else None
        place = min([known.end, *self._cuts_since_start(known, extent)])
        begin = same_until(log, place, known.points, end)
        if begin is not None and extent.end >= begin:
            # What is new may begin before a later record that shows it.
            begin = self._old_end.before(replace(known, end=begin), extent)
        followed = replace(known, cut=extent.last_cut or known.cut)
        if begin == known.end:
            return followed
        if begin is None:
            begin = self._accept_start(known, end)
        else:
            what = self._what_of_start(known)
            self._reports.add(f"{what} to Kafka was to begin: it begins at {begin}")
        return self._gone_back(followed, begin, begin)

    def _cuts_since_start(self, known: Position, extent: Extent) -> list[int]:
        """Return where the log was cut since the place was decided."""
        is_another_outputs = known.cut and not extent.has_cut(known.cut)
        if is_another_outputs and points_of_log.check(self._link.log, known.points).is_same:
            # The log may have been cut before the place was decided, and not since.
            return []
        return extent.cut_since(known.cut)

    def _what_of_start(self, known: Position) -> str:
        return (
            f"{self._link.name}: the log was cut before physical offset {known.end}, where sending"
        )

    def _accept_start(self, known: Position, end: int | None) -> int:
        """Return where sending begins if nothing tells how much before the log's end is new.

        Raises:
            KafkaError: the operator wants to know.
        """
        what = (
            f"{self._what_of_start(known)} to Kafka was to begin; nothing was sent yet. It ends at "
            f"{end} now, and how much before that is new is not known, as an earlier version wrote "
            "that place down"
        )
        self._reports.add_loss()
        if self._link.settings.on_truncation != CONTINUE:
            raise KafkaError(
                f'{what}. To begin at {end}, set on_truncation = "continue" for one start: '
                "what is new before that is left out"
            )
        begin = end if end is not None else known.end
        self._reports.add(f"{what}: it begins at {begin}")
        return begin

    def _gone_back(
        self, followed: Position, end: int, since: int, last: Chunk | None = None
    ) -> Position:
        """Return a position that has gone back, and begin its trail there.

        Args:
            followed: as it was.
            end: physical offset to which it goes back.
            since: see `Position.since`.
            last: a chunk of the records before that; an empty one if there is none.
        """
        number = followed.chunk + 1
        self._trail.begin(last if last is not None else _empty_chunk(number, end))
        points = tuple(p for p in followed.points if p.end <= end)
        return replace(followed, end=end, points=points, chunk=number, accepted=-1, since=since)

    def past_expired(self, known: Position) -> Position:
        """Return a position after what expired before it was sent, where the operator accepts that.

        Raises:
            KafkaError: the operator wants to know first.
        """
        begin, end = known.end, self._link.log.min_offset
        if begin >= end:
            return known
        name = self._link.name
        lost = f"{name}: physical offsets {begin} to {end} expired before they were sent"
        self._reports.add_loss()
        if self._fail_on_data_loss:
            raise KafkaError(
                f"{lost} to Kafka. Restore the files, or resume after the gap with "
                "--no-fail-on-data-loss"
            )
        self._reports.add(f"{lost} to Kafka, and are missing there")
        return replace(known, end=end, since=end if known.is_unsent else known.since)


def _empty_chunk(number: int, place: int) -> Chunk:
    return Chunk(number, place, place, np.zeros(0, np.uint32))
