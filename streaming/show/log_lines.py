"""Log lines on standard error, as text or as JSON, and what a job says when it starts."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from pythonjsonlogger.json import JsonFormatter

from reput.stores.inspect.printable import printable
from reput.streaming.endings.verbosity import VERBOSITY
from reput.streaming.events import CURRENT_STORE, STARTED, STORE, kind_of_event
from reput.streaming.settings.secret_words import looks_secret
from reput.streaming.show.console import ERR
from reput.streaming.show.moments import local_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.streaming.job.job import Job
    from reput.streaming.settings.config import StoreConfig

_LOG = logging.getLogger("reput")
_HANDLER: logging.Handler | None = None


def _local_time(record: logging.LogRecord) -> str:
    return local_time(int(record.created * 1000), " ") or str(record.created)


class _Zoned(logging.Formatter):
    """Log lines whose times name their zone."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        return _local_time(record)


class _ZonedJson(JsonFormatter):
    """Log lines as JSON whose times name their zone."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        return _local_time(record)


class _OfStore(logging.Filter):
    """Adds the store to lines that do not name it in a field, where all that runs is about one."""

    def filter(self, record: logging.LogRecord) -> bool:
        store = CURRENT_STORE.get()
        if store is not None and not hasattr(record, "store"):
            record.store = store
        return True


class _Reworded(logging.Filter):
    """Says lines in other words."""

    def __init__(self, words: Callable[[str], str]) -> None:
        super().__init__()
        self._words = words

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._words(record.getMessage()), None
        return True


def log_to_stderr(
    *,
    as_json: bool = False,
    usual: int = logging.INFO,
    words: Callable[[str], str] | None = None,
) -> None:
    """Send our log lines to standard error, in place of how they went there before.

    Args:
        as_json: one JSON object a line, for log collectors; otherwise text.
        usual: the command's level without `-v` and `-q`.
        words: returns a line as it is said, such as with the keys of a file for options.
    """
    global _HANDLER  # noqa: PLW0603 - the logger is one for the process, too
    if _HANDLER is not None:
        _LOG.removeHandler(_HANDLER)
    handler = logging.StreamHandler(sys.stderr)
    if as_json:
        handler.addFilter(_OfStore())
        handler.setFormatter(
            _ZonedJson(
                "%(asctime)s %(levelname)s %(message)s",
                rename_fields={"asctime": "time", "levelname": "level"},
            )
        )
    else:
        handler.setFormatter(_Zoned("%(asctime)s %(levelname)s %(message)s"))
    if words is not None:
        handler.addFilter(_Reworded(words))
    _LOG.addHandler(handler)
    _HANDLER = handler
    _LOG.setLevel(VERBOSITY.level(usual))


def logs_json() -> bool:
    """Tell whether log lines are JSON."""
    return any(isinstance(each.formatter, JsonFormatter) for each in _LOG.handlers)


def report_openings(job: Job) -> None:
    """Say where each output resumes, and what of it was rolled back."""
    # The job has brought what opens outputs.
    from reput.streaming.writers.opening import events_of  # noqa: PLC0415

    for name, dispatcher in job.dispatchers.items():
        for event in events_of(dispatcher):
            _report(name, event, kind_of_event(event))


def _report(store: str, text: str, kind: str) -> None:
    """Say it in the log where there is one."""
    if _LOG.handlers:
        _LOG.warning("%s: %s", store, text, extra={"store": store, "event": kind})
    else:
        ERR.print(f"{store}: {text}", markup=False)


def report_settings(
    configs: Sequence[StoreConfig], options: object, more: Mapping[str, object]
) -> None:
    """Log what is in force: one line for the job, and one for each store.

    A broker.conf may hold passwords: only what counts here is shown, and nothing that looks like a
    secret.

    Args:
        configs: the stores.
        options: a dataclass, the job's.
        more: further settings by name.
    """
    settings = {**_shown(vars(options)), **_shown(more)}
    _LOG.info(
        "started with %s",
        ", ".join(f"{name}={value}" for name, value in settings.items()),
        extra={"event": STARTED, "settings": settings},
    )
    for config in configs:
        report_store(config.name, config.path, config.output, config.settings)


def report_store(name: str, path: Path, output: Path, settings: BrokerSettings) -> None:
    """Log where a store is, and which settings differ from a broker's own.

    Args:
        name: what logs call it.
        path: of the store.
        output: where its queues and index are.
        settings: in force.
    """
    default = type(settings)()
    values = {
        key: value
        for key, value in vars(settings).items()
        if key != "version" and value != getattr(default, key)
    }
    store = {
        "path": str(path),
        "output": str(output),
        "broker_version": settings.version.family,
        **_shown(values),
    }
    _LOG.info(
        "%s: %s",
        name,
        ", ".join(f"{key}={value}" for key, value in store.items()),
        extra={"event": STORE, "store": name, "settings": store},
    )


def _shown(values: Mapping[str, object]) -> dict[str, object]:
    """Return values fit to be logged: plain ones, and none of a secret."""
    return {
        name: "***"
        if looks_secret(name)
        else value
        if isinstance(value, bool | int | float | None)
        else printable(str(value))
        for name, value in values.items()
    }
