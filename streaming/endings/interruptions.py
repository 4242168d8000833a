"""How the command ends when a signal interrupts it.

SIGTERM and Ctrl-C are the same. A command ends at once with a line and its code, unless it has
begun something that is to be closed in order: then `Ending` passes the request on. A second signal
ends the process as signals do. The module is imported before all others, and so imports little.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from reput.streaming.endings.exit_codes import INCOMPLETE, OK
from reput.streaming.endings.standard_output import OutputError, take_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The first two have no end of their own whatever their options are, the third has one with one of
# these.
_RUN, _SERVE, _TAIL = "run", "serve", "tail"
_TAIL_ENDS = ("--limit", "-n", "--seconds")


class Interrupted(BaseException):
    """A signal came while there was something to tidy up: it passes all handlers of errors."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def begin() -> None:
    """Take over signals and standard streams; what came before is Python's own start."""
    take_over()
    for number in SIGNALS:
        signal.signal(number, _end_at_once)
    _COMMAND.is_process = True
    # The first to be registered is the last to be called.
    atexit.register(_ignore_signals)


def _ignore_signals() -> None:
    """Keep the exit code while Python takes itself apart, which sets handlers to the default."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def command() -> str:
    """Return the command's name, "" without one."""
    return next((word for word in sys.argv[1:] if not word.startswith("-")), "")


def wants_json() -> bool:
    """Tell whether errors are answered as JSON.

    Read from the words: an error or a signal may come before they are parsed.
    """
    words = sys.argv[1:]
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def again() -> str:
    """Return the command line, to be run once more."""
    return shlex.join(["reput", *sys.argv[1:]])


class _Command:
    """What is known of the command by now.

    Attributes:
        is_process: signals are ours, because the process is.
        early: name of a signal that came before something took it, "" for none.
        has_begun: it takes signals itself, or has.
        answers: its answer is being printed.
        leaves_at_once: threads are still busy, and their results are not needed.
    """

    is_process = False
    early = ""
    has_begun = False
    answers = False
    leaves_at_once = False


_COMMAND = _Command()


def answers_now() -> None:
    """Note that the answer is about to be printed: nothing else may follow it there."""
    _COMMAND.answers = True


def leave_at_once() -> None:
    """Let `exit_with` wait for no thread: what some still do is not needed."""
    _COMMAND.leaves_at_once = True


def exit_with(code: int) -> NoReturn:
    """End the process, at once if that was asked for; a signal no longer changes the code."""
    if _COMMAND.leaves_at_once:
        os._exit(code)
    for number in SIGNALS if _COMMAND.is_process else ():
        signal.signal(number, lambda *_: os._exit(code))
    sys.exit(code)


def interrupted_code() -> int:
    """Return the exit code of this command where it is interrupted and has no answer yet."""
    return OK if _is_endless() else INCOMPLETE


def _is_endless() -> bool:
    """Tell whether the command has done what it was asked for whenever it ends.

    Read from its words: a signal may come before they are parsed. That is not so for `run`:
    where it has begun it ends in order and says itself what is left; where it has not, that is not
    known.
    """
    if command() == _SERVE:
        return True
    return command() == _TAIL and not any(word.startswith(_TAIL_ENDS) for word in sys.argv)


def _end_at_once(number: int, _frame: FrameType | None) -> None:
    _ends_by_signal_now()
    name = signal.Signals(number).name
    code = interrupted_code()
    if command() == _RUN and _COMMAND.has_begun and not _COMMAND.answers:
        # Between two that take signals: the next one ends in order, with its document.
        _COMMAND.early = name
        return
    if command() == _RUN and not _COMMAND.has_begun:
        _tell_unbegun(name)
    elif code == OK:
        # What was shown so far was wanted.
        with contextlib.suppress(OutputError, RuntimeError, ValueError):
            sys.stdout.flush()
    else:
        tell_interrupted(name)
    # No thread and no child of ours has anything to say after this.
    os._exit(code)


def unbegun(name: str) -> str:
    """Return what is said of a job that a signal has ended before it looked at its logs."""
    return (
        f"{name}: ended before it began; what is left of the log is not known; "
        f"run it again: {again()}"
    )


def _tell_unbegun(name: str) -> None:
    """Say that a job was ended while its program was loaded; with --json what it did: nothing."""
    text = unbegun(name)
    if wants_json():
        import json  # noqa: PLC0415 - slow to import

        # docs/json/run.json; which stores it was to have is not read yet.
        seconds = dict.fromkeys(("seconds", "busy_seconds", "dispatch_seconds"), 0.0)
        counts = dict.fromkeys(("messages", "bytes", "messages_per_second", "files"), 0)
        verdict = {"complete": False, "queues_complete": False, "error": text}
        _write(1, json.dumps({**counts, **seconds, **verdict, "stores": []}))
    _write(2, f"reput: {text}")


def tell_interrupted(name: str) -> None:
    """Say on standard error, and with --json as a document, that there is no answer.

    Where an answer was being printed, half of it may be out: a second document would be part of it.
    """
    text = f"{name}: interrupted before it was done; run it again: {again()}"
    if wants_json() and not _COMMAND.answers:
        import json  # noqa: PLC0415 - slow to import

        _write(1, json.dumps({"error": text, "exit_code": INCOMPLETE}))
    _write(2, f"reput: {text}")


def _write(descriptor: int, text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, f"{text}\n".encode("utf-8", "surrogateescape"))


def _ends_by_signal_now() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _ends_already(_number: int, _frame: FrameType | None) -> None:
    _ends_by_signal_now()


@contextlib.contextmanager
def tidying() -> Iterator[None]:
    """Make a signal raise `Interrupted`, for what has children or temporary files."""

    def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
        _ends_by_signal_now()
        raise Interrupted(number)

    with _handling(interrupt):
        yield


class Ending:
    """A request to end in order, passed from a signal to the job.

    Attributes:
        name: of the signal that came, "" before.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        """Begin without a signal.

        Args:
            say: called with the name of the first signal.
        """
        self.name = ""
        self._say = say
        self._stop: Callable[[], None] | None = None

    def passes_to(self, stop: Callable[[], None]) -> None:
        """Call `stop` at a signal, or at once if there was one."""
        self._stop = stop
        if self.name:
            stop()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Take signals, also one that came early; the second one ends the process.

        An error has its own exit code, and a signal that comes while it is told changes nothing.
        """
        take = self._take
        _COMMAND.has_begun = True
        with _handling(take):
            early, _COMMAND.early = _COMMAND.early, ""
            if early:
                _ends_by_signal_now()
                self._end(early)
            try:
                yield
            except Exception:
                for number in SIGNALS:
                    if signal.getsignal(number) is take:
                        signal.signal(number, _ends_already)
                raise

    def _take(self, number: int, _frame: FrameType | None) -> None:
        _ends_by_signal_now()
        self._end(signal.Signals(number).name)

    def _end(self, name: str) -> None:
        self.name = name
        # Stop first, then say so: a log line can block until its reader takes it.
        if self._stop is not None:
            self._stop()
        self._say(self.name)


@contextlib.contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle signals by `handler`; the first one may set other handlers, which stay."""
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, older in before.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, older)
