"""What the command says of unexpected errors.

An unexpected error is one line on the screen. Its traceback goes into a file: in `.reput` of the
output that is being written, else in the system's temporary directory; never in a broker's store.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from reput.streaming.endings.exit_codes import FAILED
from reput.streaming.endings.interruptions import answers_now
from reput.streaming.endings.verbosity import VERBOSITY
from reput.streaming.settings.secret_words import looks_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

_FILE_NAME = "unexpected.txt"
_PACKAGES = ("reput", "pyspark", "py4j", "numpy", "numba", "pyarrow", "kafka-python")
_SPACES = re.compile(r"\s+")
_SAID = 300


class Failures:
    """What is known of the command while it runs, for the case that it fails.

    Attributes:
        answer: the exit code of what is about to be printed, None before there is an answer.
        done: what was done before it failed; with `--json` it is in the document of the error.
        code: the exit code of an error that is told.
    """

    def __init__(self) -> None:
        self.answer: int | None = None
        self.done: dict[str, object] = {}
        self.code = FAILED
        self._places: tuple[Path, ...] = ()

    def answered(self, code: int) -> int:
        """Keep the code of an answer that is about to be printed, and return it."""
        self.answer = code
        answers_now()
        return code

    def writes(self, places: Iterable[Path]) -> None:
        """Name the directories for tracebacks, the best one first."""
        self._places = tuple(places)

    def describe(self, error: BaseException) -> str:
        """Write down an unexpected error, and return the line for the screen."""
        said = _SPACES.sub(" ", str(error)).strip()
        what = f"unexpected {type(error).__name__}"
        if said:
            what += f": {said[:_SAID]}{'…' if len(said) > _SAID else ''}"
        account = "".join(traceback.format_exception(error))
        kept = self.keep(account)
        if VERBOSITY.shows_tracebacks:
            with contextlib.suppress(OSError):
                print(account, end="", file=sys.stderr)
        return f"{what}; {kept}"

    def keep(self, account: str) -> str:
        """Write down a long account of what went wrong, and return where it is, in words."""
        try:
            path = self._write(_details(account).encode("utf-8", "backslashreplace"))
        except OSError as failure:
            return f"its details cannot be written: {failure.strerror}"
        return f"details are in {path}"

    def _write(self, text: bytes) -> Path:
        for place in self._places:
            with contextlib.suppress(OSError):
                path = place / _FILE_NAME
                path.write_bytes(text)
                return path
        import tempfile  # noqa: PLC0415 - slow to import

        descriptor, name = tempfile.mkstemp(prefix="reput-", suffix=".txt")
        with open(descriptor, "wb") as file:  # noqa: PTH123 - it has no name of its own
            file.write(text)
        return Path(name)

    def watch_threads(self) -> None:
        """Report an error that ends a thread in one line as well."""

        def describe(ended: threading.ExceptHookArgs) -> None:
            if ended.exc_value is None or isinstance(ended.exc_value, SystemExit):
                return
            where = ended.thread.name if ended.thread is not None else "a thread"
            line = self.describe(ended.exc_value)
            with contextlib.suppress(OSError):
                os.write(2, f"reput: {where}: {line}\n".encode("utf-8", "backslashreplace"))

        threading.excepthook = describe


FAILURES = Failures()


def cause_of(text: str) -> str:
    """Return the innermost cause that Spark gives in a text of many lines."""
    lines = text.strip().splitlines() or ["Spark does not say why"]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines[:1])[-1].strip()[:_SAID]


def _details(account: str) -> str:
    import platform  # noqa: PLC0415 - slow to import

    versions = []
    for name in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions.append(f"{name} {version(name)}")
    lines = [
        time.strftime("%Y-%m-%d %H:%M:%S%z"),
        " ".join("***" if looks_secret(word) else word for word in sys.argv),
        f"Python {sys.version}",
        platform.platform(),
        ", ".join(versions),
        f"process {os.getpid()}, {threading.active_count()} threads",
        "",
        account,
    ]
    return "\n".join(lines)
