"""Answers /metrics, /healthz and /readyz over HTTP or HTTPS, whatever else connects to the port.

A connection is a thread and a descriptor, so there are `_MOST_CONNECTIONS` at most: if one more
comes, the longest silent one is closed. Health checks need no permission; /metrics needs what
`observe.access.Access` says.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Protocol, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

from reput.formats.errors import ReputError
from reput.streaming.events import NOTICE
from reput.streaming.observe.access import CONTENT, PEER, Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIEnvironment

    from prometheus_client import CollectorRegistry

LOG = logging.getLogger("reput")


class Shown(Protocol):
    """What is shown: of a job, or of `reput serve`."""

    registry: CollectorRegistry

    def is_alive(self) -> bool:
        """Tell whether it works at all."""

    def is_ready(self, most_behind: int, /) -> bool:
        """Tell whether it keeps up; see `serve`."""

    def scraped(self, began: float) -> None:
        """Take that a scrape, begun then, was answered."""


# More than any number of Prometheus servers and kubelets ask at a time; far from a limit of 1,024
# open files.
_MOST_CONNECTIONS = 64
# Between two parts of a request or of an answer, and for a TLS handshake.
_TIMEOUT = 10.0
_NO_ROOM_SECONDS = 0.1


class _Answer:
    """A body, and what to call once it was sent."""

    def __init__(self, parts: Iterable[bytes], sent: Callable[[], None]) -> None:
        self._parts = parts
        self.close = sent

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._parts)


@dataclass
class _Connections:
    """The open connections, and which of them have not sent a request yet."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    count: int = 0
    # In the order of their arrival.
    silent: dict[int, socket.socket] = field(default_factory=dict)

    def enter(self, connection: socket.socket) -> bool:
        """Take one more, in place of a silent one if need be; return False if there is no room."""
        with self.lock:
            if self.count >= _MOST_CONNECTIONS:
                oldest = next(iter(self.silent), None)
                if oldest is None:
                    return False
                # That wakes its thread, which leaves.
                with contextlib.suppress(OSError):
                    self.silent.pop(oldest).shutdown(socket.SHUT_RDWR)
            self.count += 1
            self.silent[connection.fileno()] = connection
            return True

    def speaks(self, number: int) -> None:
        """Take note that a request has come, so the connection is not silent."""
        with self.lock:
            self.silent.pop(number, None)

    def leave(self, number: int) -> None:
        """Take note that one is about to be closed."""
        with self.lock:
            self.count -= 1
            self.silent.pop(number, None)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    # With the library's 5, clients wait for seconds if many connect at once.
    request_queue_size = 128
    access = Access()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._connections = _Connections()
        self._tls: tuple[tuple[int, ...], ssl.SSLContext] | None = None
        self._tls_lock = threading.Lock()
        # Stamps of files that could not be used, once that was logged.
        self._refused: tuple[int, ...] = ()
        super().__init__(*arguments, **options)

    def get_request(self) -> Any:
        """Take a connection; if no descriptor is left, wait a moment before the next try."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_NO_ROOM_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread, if there is room for it."""
        if not self._connections.enter(request):
            self.shutdown_request(request)
            return
        number = request.fileno()
        try:
            super().process_request(request, client_address)
        except BaseException:
            # No thread was started that could leave.
            self._connections.leave(number)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer on a connection's own thread, so that a slow handshake delays nobody else."""
        number = request.fileno()
        try:
            self._talk(request, client_address)
        except (OSError, ValueError):
            # The client went away, was silent for too long, or does not speak TLS or HTTP.
            LOG.debug("a connection to the metrics port broke off", exc_info=True)
        except Exception:
            LOG.exception("a request to the metrics port failed")
        finally:
            self._connections.leave(number)
            self.shutdown_request(request)

    def _talk(self, request: socket.socket, client_address: Any) -> None:
        request.settimeout(_TIMEOUT)
        if self.access.certificate is None:
            self.finish_request(request, client_address)
            return
        with self._context().wrap_socket(
            request.dup(), server_side=True, do_handshake_on_connect=False
        ) as secure:
            secure.do_handshake()
            handler = cast("Any", self.RequestHandlerClass)
            handler(secure, client_address, self, request.fileno())
            with contextlib.suppress(OSError):
                secure.unwrap()

    def protect(self, access: Access) -> None:
        """Protect the port from now on.

        Raises:
            OSError: a file of TLS cannot be used.
        """
        self.access = access
        if access.certificate is not None:
            self._tls = access.stamps(), access.context()

    def _context(self) -> ssl.SSLContext:
        """Return the TLS settings, read again when a file was replaced.

        Certificate and key are two files, and one is replaced before the other one: as long as they
        do not go together, what was read before counts.
        """
        with self._tls_lock:
            if self._tls is None:
                raise RuntimeError("the port has no TLS settings")
            stamps = self.access.stamps()
            if stamps != self._tls[0]:
                try:
                    self._tls = stamps, self.access.context()
                except OSError as error:
                    if stamps != self._refused:
                        LOG.warning(
                            "TLS of the metrics port: %s; the certificate and key that were read "
                            "before are used until the files go together",
                            error,
                            extra={"event": NOTICE},
                        )
                    self._refused = stamps
            return self._tls[1]

    def speaks(self, number: int) -> None:
        """Take note that a request has come."""
        self._connections.speaks(number)


class _Handler(WSGIRequestHandler):
    timeout = _TIMEOUT

    def __init__(
        self, request: Any, client_address: Any, server: _Server, number: int | None = None
    ) -> None:
        self._number = request.fileno() if number is None else number
        super().__init__(request, client_address, server)

    def parse_request(self) -> bool:
        """Read a request; after that the connection is not closed for another one."""
        is_fine = super().parse_request()
        cast("_Server", self.server).speaks(self._number)
        return is_fine

    def get_environ(self) -> WSGIEnvironment:
        """Return the request, with the client's certificate if it has shown one."""
        environ = super().get_environ()
        if isinstance(self.request, ssl.SSLSocket):
            environ[PEER] = self.request.getpeercert()
        return environ

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Log nothing: a scrape every few seconds is not news."""


def serve(
    metrics: Shown, host: str, port: int, ready_bytes: int, access: Access | None = None
) -> WSGIServer:
    """Answer on a thread of its own; `shutdown` and `server_close` end it.

    Args:
        metrics: the job's, or those of `reput serve`.
        host: address to listen on.
        port: 0 for any.
        ready_bytes: /readyz says no when a store is further behind.
        access: TLS, and what a client needs to see /metrics.

    Raises:
        ReputError: it cannot listen there; names the options.
        UsageError: a file of `access` cannot be used.
    """
    access = access or Access()
    access.check()
    app = _app_of(metrics, ready_bytes, access)
    try:
        server = make_server(host, port, app, server_class=_Server, handler_class=_Handler)
    except OSError as error:
        raise ReputError(
            f"--metrics-host {host}, --metrics-port {port}: {error.strerror or error}; name an "
            "address of this machine, and a port that is free"
        ) from error
    try:
        server.protect(access)
    except BaseException:
        server.server_close()
        raise
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


def _app_of(
    metrics: Shown, ready_bytes: int, access: Access
) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    """Return what answers requests, by their path."""
    scrape = make_wsgi_app(metrics.registry)

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            refusal = access.refusal(environ)
            if refusal is not None:
                start(*refusal)
                return [b"not for you\n"]
            began = time.monotonic()
            return _Answer(scrape(environ, start), lambda: metrics.scraped(began))
        checks: dict[str, Callable[[], bool]] = {
            "/healthz": metrics.is_alive,
            "/readyz": lambda: metrics.is_ready(ready_bytes),
        }
        if path not in checks:
            start("404 Not Found", [CONTENT])
            return [b"/metrics, /healthz and /readyz are here\n"]
        is_fine = checks[path]()
        start("200 OK" if is_fine else "503 Service Unavailable", [CONTENT])
        return [b"yes\n" if is_fine else b"no\n"]

    return app
