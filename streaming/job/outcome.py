"""What a job ends with: its first error that counts, said so that an operator can act."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from reput.formats.errors import BodyError, FileSizeError, FormatError, StoreError, mark
from reput.stores.config.changing import Changing
from reput.streaming.dispatch.log import damage
from reput.streaming.spark.errors import SPARK_ERRORS
from reput.streaming.writers.base import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reput.streaming.settings.config import StoreConfig

LOG = logging.getLogger("reput")
# What comes of Spark's end, and not of a store or an output.
_OF_SPARK = (*SPARK_ERRORS, UnreachableError)


class Outcome:
    """What a job ends with.

    Attributes:
        error: None as long as all is well.
    """

    def __init__(self, is_asked: Callable[[], bool]) -> None:
        """Begin without an error.

        Args:
            is_asked: tells whether the job was asked to end: then Spark may end before it.
        """
        self.error: BaseException | None = None
        self._is_asked = is_asked

    def take(self, error: BaseException | None, store: str | None = None) -> None:
        """Take an error, unless there is an earlier one.

        Args:
            error: None for nothing.
            store: the name of the store that it is about.
        """
        if error is not None and store is not None:
            mark(error, store)
        self.error = self.error or error

    def look_at_settings(self, configs: Sequence[StoreConfig]) -> None:
        """Take the error of a broker's file of settings that cannot be read, as a start does.

        While a job runs, what such a file said before counts. A job that has done all there is does
        not read it again.

        Args:
            configs: of the stores; nothing is done for a job that was asked to end.
        """
        for config in () if self._is_asked() else configs:
            try:
                Changing.of(config.path, config.settings)
            except (StoreError, OSError) as error:
                self.take(error, config.name)

    def end_with(self, error: BaseException | None) -> None:
        """Take an error and raise it; None does nothing."""
        self.take(error)
        if error is not None:
            raise error

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Take an error that is raised, unless it comes of Spark's end."""
        try:
            yield
        except BaseException as error:
            if not (isinstance(error, _OF_SPARK) and self._is_asked()):
                self.take(error)
            raise

    @contextlib.contextmanager
    def ending_without_spark(self) -> Iterator[None]:
        """Accept that Spark ends before us, if the job was asked to end.

        A signal for all processes of a group, or of a service, reaches Spark's as well.
        """
        try:
            yield
        except _OF_SPARK as error:
            if not self._is_asked():
                raise
            LOG.info("Spark has ended already: %s", type(error).__name__)

    @contextlib.contextmanager
    def explaining(self, configs: Sequence[StoreConfig], *, skips_corrupt: bool) -> Iterator[None]:
        """Raise the error, if there is one: at a place of a log with what can be done about it.

        It is the same whether it was raised on the way or only taken: who hears first of a batch
        that failed, Spark or the job, is a matter of chance.

        Args:
            configs: of the stores.
            skips_corrupt: damage is passed over already.
        """
        try:
            yield
        except Exception:
            if self.error is None:
                raise
        if self.error is not None:
            said = None if skips_corrupt else _explained(self.error, configs)
            if said is not None:
                raise said from self.error
            raise self.error


def _explained(error: BaseException, configs: Sequence[StoreConfig]) -> FormatError | None:
    """Return the error with what can be done about its place; None if it has none in a log."""
    if not isinstance(error, FormatError) or isinstance(error, BodyError | FileSizeError):
        return None
    found = (damage.explained(error, config) for config in configs)
    return next((each for each in found if each is not None), None)
