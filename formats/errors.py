"""The errors that say what is wrong with a store: always a file, a byte and what to do.

An error that leaves its process travels as its `code` and its `fields`. Spark passes on nothing but
the text of a traceback, so the traceback of each error ends with a line for machines:

    reput.formats.errors.FormatError: /log at byte 4: no magic. Restore the file.
    [reput:format] {"path": "/log", "position": 4, "problem": "no magic", "remedy": "Restore the …"}

`str(error)` does not have that line; `recovered` reads it back. An error that is raised for one of
several stores says which one in the same way (`about`).
"""

from __future__ import annotations

import contextlib
import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# What can be done about a file of an output that is not as a writer of reput left it.
TOUCHED_REMEDY = (
    "Somebody has removed it, set it back or written to it since; `reput rebuild --repair` with "
    "the same store and output mends it"
)
_STORE = "store"
_MARKER = re.compile(r"\[reput:([a-z-]+)\] (?=\{)")


class ReputError(Exception):
    """Something a user can act on; the command prints it without a traceback and exits with 3.

    Attributes:
        code: names the class outside of its process, and stays when the class is renamed. A
            subclass without a code of its own arrives as the class that it takes the code from.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str) -> None:
        # PySpark cannot send what is not Unicode, such as a file name in Latin-1: its JVM waits for
        # the error for ever.
        super().__init__(message.encode("utf-8", "backslashreplace").decode())

    @property
    def fields(self) -> dict[str, Any]:
        """Return the arguments that make the error again: JSON values, in their order."""
        return {"message": str(self)}

    @cached_property
    def __notes__(self) -> list[str]:  # type: ignore[override] # a list all the same
        """Return what a traceback adds to the message."""
        return [f"[reput:{self.code}] {json.dumps(self.fields | _marked(self))}"]


class UsageError(ReputError):
    """A setting or an argument is wrong; the command exits with 2."""

    code = "usage"


class StoreError(ReputError):
    """A directory is not a store that can be dispatched: missing, foreign, of another kind."""

    code = "store"

    def __init__(self, path: Path | str, found: str, remedy: str) -> None:
        super().__init__(f"{path}: {found}. {remedy}")
        self.path = str(path)
        self.problem = found
        self.remedy = remedy

    @property
    def fields(self) -> dict[str, Any]:
        """Return path, problem and remedy."""
        return {"path": self.path, "problem": self.problem, "remedy": self.remedy}

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it be pickled as what it is."""
        return type(self), tuple(self.fields.values()), _marked(self)


class ExpiredError(ReputError):
    """Records were deleted before they were dispatched, and that must not be."""

    code = "expired"


class KafkaError(ReputError):
    """What Kafka would not do, and what an operator can do about it."""

    code = "kafka"


class FormatError(ReputError):
    """A file breaks its format. Names the file and the byte, so `xxd -s` is one paste away.

    Attributes:
        note: of a place in a log that `--on-corrupt skip` passes over: what a reader should know
            about it besides how to pass over it, "" for nothing. None of anything else.
    """

    code = "format"

    def __init__(
        self,
        path: Path | str,
        position: int,
        found: str,
        remedy: str = "",
        note: str | None = None,
    ) -> None:
        super().__init__(f"{path} at byte {position}: {found}." + (f" {remedy}" if remedy else ""))
        self.path = str(path)
        self.position = int(position)
        self.problem = found
        self.remedy = remedy
        self.note = note

    @property
    def fields(self) -> dict[str, Any]:
        """Return path, position, problem, remedy and note."""
        return {
            "path": self.path,
            "position": self.position,
            "problem": self.problem,
            "remedy": self.remedy,
            "note": self.note,
        }

    def with_remedy(self, remedy: str) -> FormatError:
        """Return the same error with something else to do about it, and its note after that."""
        said = f"{remedy} {self.note or ''}".strip()
        again = type(self)(self.path, self.position, self.problem, said, self.note)
        if store := store_of(self):
            mark(again, store)
        return again

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it be pickled as what it is."""
        return type(self), tuple(self.fields.values()), _marked(self)


class FileSizeError(FormatError):
    """A file is not as long as the settings say: more often a wrong setting than damage."""

    code = "file-size"


class BodyError(FormatError):
    """A body is not compressed as its record says. The record is whole, and so is the log."""

    code = "body"


class UnreadableError(FormatError):
    """A whole record that its own broker cannot parse: when it restarts, it cuts the log there."""

    code = "unreadable"


class StuckError(ReputError):
    """A store's writer does not move: its device or file system hangs, or its process stands."""

    code = "stuck"

    def __init__(self, place: Path | str, seconds: float) -> None:
        super().__init__(
            f"{place}: its writer has not moved for {seconds:.0f} s: a disk or file system hangs, "
            "or the process is stopped. Look for blocked tasks in the kernel's log; what it wrote "
            "last is rolled back at the next start"
        )
        self.path = str(place)
        self.seconds = float(seconds)

    @property
    def fields(self) -> dict[str, Any]:
        """Return path and seconds."""
        return {"path": self.path, "seconds": self.seconds}

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it be pickled as what it is."""
        return type(self), tuple(self.fields.values()), _marked(self)


KINDS: dict[str, type[ReputError]] = {
    kind.code: kind
    for kind in (
        ReputError,
        UsageError,
        StoreError,
        ExpiredError,
        KafkaError,
        FormatError,
        FileSizeError,
        BodyError,
        UnreadableError,
        StuckError,
    )
}


@contextlib.contextmanager
def about(store: str) -> Iterator[None]:
    """Mark errors as being about a store.

    Args:
        store: its name.
    """
    try:
        yield
    except BaseException as error:
        mark(error, store)
        raise


def mark(error: BaseException, store: str) -> None:
    """Mark an error as being about a store, unless it names one already."""
    vars(error).setdefault(_STORE, store)


def store_of(error: BaseException) -> str | None:
    """Return the name of the store that an error is about, None where it does not say."""
    return vars(error).get(_STORE)


def _marked(error: BaseException) -> dict[str, str]:
    return {_STORE: store} if (store := store_of(error)) else {}


def made_again(code: str, fields: Mapping[str, Any]) -> ReputError:
    """Return the error that has this code and these fields.

    Raises:
        KeyError: no class has the code.
        TypeError: the class has other fields.
    """
    return KINDS[code](*fields.values())


def recovered(text: str) -> ReputError | None:
    """Return the last of our errors that a text of tracebacks carries, None if it carries none."""
    for line in reversed(text.splitlines()):
        found = _MARKER.search(line)
        if found is None:
            continue
        # The text may have been truncated on its way.
        with contextlib.suppress(ValueError, KeyError, TypeError):
            fields, _ = json.JSONDecoder().raw_decode(line, found.end())
            store = fields.pop(_STORE, None)
            error = made_again(found[1], fields)
            if store is not None:
                mark(error, store)
            return error
    return None


class ExpressionError(ValueError):
    """A broker refuses the text, or a strict reader does.

    Attributes:
        reason: what is wrong.
        position: the character where it goes wrong, 0 the first.
        java: the class of the broker's exception, below its MQFilterException; empty where a broker
            takes the text and only a strict reader refuses it.
    """

    def __init__(self, reason: str, position: int, java: str) -> None:
        super().__init__(f"{reason}, at character {position}")
        self.reason = reason
        self.position = position
        self.java = java
