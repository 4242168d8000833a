"""Why kafka-python cannot connect: it logs that, and raises that it took too long."""

from __future__ import annotations

import logging
import threading
from typing import Any

from kafka import errors
from kafka.net.compat import KafkaNetClient

from reput.sinks.kafka.client.errors import ACCESS_ERRORS

_CONNECTIONS = logging.getLogger("kafka.net.manager")
# The error that is raised says anyway that it took too long.
_NO_REASONS = (errors.KafkaTimeoutError, errors.NodeNotReadyError)


class Reasons(logging.Handler):
    """Keeps what kafka-python logs and does not raise: why it cannot connect.

    All clients of a process log to one place; only lines of this client count.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: Exception | None = None
        self._caller = threading.get_ident()
        self._client: Any = None

    def make(self, **config: Any) -> Any:
        """Return a client for kafka-python, whose log lines count."""
        self._client = KafkaNetClient(**config)
        return self._client

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the error that a log line has."""
        own = self._client._net._io_thread if self._client is not None else None  # noqa: SLF001
        if record.thread not in {self._caller, own.ident if own is not None else None}:
            return
        for value in record.args if isinstance(record.args, tuple) else ():
            if not isinstance(value, Exception) or isinstance(value, _NO_REASONS):
                continue
            # A password that is refused is the reason for all that follows.
            if not isinstance(self.last, ACCESS_ERRORS):
                self.last = value

    def __enter__(self) -> Reasons:
        _CONNECTIONS.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        _CONNECTIONS.removeHandler(self)
