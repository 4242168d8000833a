"""What a client needs to see /metrics, and whether the port speaks TLS."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reput.formats.errors import UsageError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from pathlib import Path

# Where a request has its client's certificate.
PEER = "reput.peer_certificate"
# Type of an answer in words.
CONTENT = ("Content-Type", "text/plain; charset=utf-8")


@dataclass(frozen=True)
class Access:
    """How /metrics is protected; by default not at all.

    Attributes:
        certificate: PEM file of the server's certificate and those that signed it.
        key: PEM file of its key.
        client_authority: PEM file: /metrics is for clients with a certificate signed by one of it.
        token: file of a bearer token.
        credentials: file of a line `user:password`.
    """

    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None
    token: Path | None = None
    credentials: Path | None = None

    @property
    def summary(self) -> str:
        """Return in a word or two what protects /metrics."""
        kinds = {
            "TLS": self.certificate,
            "client certificates": self.client_authority,
            "token": self.token,
            "password": self.credentials,
        }
        return ", ".join(kind for kind, path in kinds.items() if path is not None) or "none"

    def check(self) -> None:
        """Check that all of it can be used.

        Raises:
            UsageError: it cannot; which option, and why.
        """
        if (self.certificate is None) != (self.key is None):
            raise UsageError("give --metrics-tls-cert and --metrics-tls-key together")
        if self.client_authority is not None and self.certificate is None:
            raise UsageError("--metrics-tls-client-ca needs --metrics-tls-cert and its key")
        if self.token is not None:
            _secret(self.token, "--metrics-token-file")
        if self.credentials is not None:
            text = _secret(self.credentials, "--metrics-basic-auth-file")
            if ":" not in text:
                raise UsageError(
                    f"--metrics-basic-auth-file {self.credentials}: a line user:password is needed"
                )
        if self.certificate is not None:
            try:
                self.context()
            except OSError as error:
                raise UsageError(f"TLS of the metrics port: {error}") from error

    def context(self) -> ssl.SSLContext:
        """Return what TLS needs, read from the files.

        Raises:
            OSError: a file cannot be read, or is not of its kind.
        """
        import ssl  # noqa: PLC0415 - few need it

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(str(self.certificate), str(self.key))
        if self.client_authority is not None:
            context.load_verify_locations(str(self.client_authority))
            # Not required: a kubelet that asks for health has none.
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def stamps(self) -> tuple[int, ...]:
        """Return what changes when a file of TLS is replaced, or goes."""
        files = (self.certificate, self.key, self.client_authority)
        return tuple(_modified(path) for path in files if path is not None)

    def refusal(self, environ: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]] | None:
        """Return status and headers of a refusal, None if the request may see /metrics.

        Files are read each time: a secret that is replaced counts at once.
        """
        if self.client_authority is not None and not environ.get(PEER):
            return "403 Forbidden", [CONTENT]
        if self.token is None and self.credentials is None:
            return None
        scheme, _, given = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        with contextlib.suppress(UsageError, binascii.Error, ValueError):
            if self.token is not None and scheme.lower() == "bearer":
                wanted = _secret(self.token, "--metrics-token-file")
                if hmac.compare_digest(given.strip().encode(), wanted.encode()):
                    return None
            if self.credentials is not None and scheme.lower() == "basic":
                wanted = _secret(self.credentials, "--metrics-basic-auth-file")
                said = base64.b64decode(given.strip(), validate=True)
                if hmac.compare_digest(said, wanted.encode()):
                    return None
        kind = 'Basic realm="metrics"' if self.credentials is not None else "Bearer"
        return "401 Unauthorized", [CONTENT, ("WWW-Authenticate", kind)]


def _modified(path: Path) -> int:
    """Return when a file was written, ns since 1970; -1 if that cannot be told."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1


def _secret(path: Path, option: str) -> str:
    """Return a file's text without white space around it.

    Raises:
        UsageError: there is none.
    """
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option} {path}: {error}") from error
    if not text:
        raise UsageError(f"{option} {path}: the file is empty")
    return text
