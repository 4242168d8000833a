"""What an error of Spark's means: its text carries one of ours, or Spark has ended."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, PySparkRuntimeError

from reput.formats.errors import ReputError, UsageError, mark, recovered, store_of
from reput.streaming.endings.failures import FAILURES, cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a call raises if Spark refuses it, or is gone.
SPARK_ERRORS = (Py4JError, PySparkException, ConnectionError)


def source_error(text: str, failed: str = "the streaming query failed") -> ReputError:
    """Return the error that our source raised, out of Spark's text.

    Args:
        text: Spark's.
        failed: what to say if the text has no error of ours: the first cause follows it, and the
            whole text goes into a file.
    """
    error = recovered(text)
    if error is None:
        return ReputError(f"{failed}: {cause_of(text)}; {FAILURES.keep(text)}")
    if isinstance(error, UsageError):
        # The command has taken its arguments by then: this is not exit code 2.
        wrong = ReputError(str(error))
        if store := store_of(error):
            mark(wrong, store)
        return wrong
    return error


@contextlib.contextmanager
def naming_its_end(
    remedy: str = "Start again; the output resumes where it was",
) -> Iterator[None]:
    """Say it in one line if Spark's JVM has ended: killed, or out of memory.

    Args:
        remedy: what to do then.

    Raises:
        ReputError: it has.
    """
    try:
        yield
    except Py4JJavaError:
        raise
    except (Py4JError, ConnectionError, PySparkRuntimeError) as error:
        raise ReputError(
            f"Spark's JVM has ended ({type(error).__name__}): it was killed, or had no memory "
            f"left. {remedy}"
        ) from error
