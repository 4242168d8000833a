"""TLS as values: from options, or from RocketMQ's `tls.properties`: `TlsHelper`, `TlsSystemConfig`.

============================ =========================================================
name                         meaning (as far as a server is concerned)
============================ =========================================================
tls.server.mode              disabled, permissive (plain connections too), enforcing
tls.test.mode.enable         true if it is not there: a certificate that nobody knows
tls.server.certPath          the certificate and those between it and a root, PEM
tls.server.keyPath           its key, PEM
tls.server.keyPassword       of the key, if it has one
tls.server.authClient        clients' certificates are verified
tls.server.trustCertPath     by whom they have to be signed
tls.server.need.client.auth  none, optional, require
============================ =========================================================

A broker takes the mode from a system property. Here it may stand in the file, too.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from reput.formats.errors import UsageError
from reput.formats.java import properties
from reput.remoting.access import files
from reput.remoting.access.errors import AccessError

if TYPE_CHECKING:
    from collections.abc import Mapping


Kind = TypeVar("Kind", bound=Enum)


class Mode(Enum):
    """Which connections are taken (`TlsMode`)."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientAuth(Enum):
    """Whether clients show a certificate. One that is shown is always verified."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRE: ssl.CERT_REQUIRED,
}


@dataclass(frozen=True)
class TlsFiles:
    """How a server speaks TLS.

    Attributes:
        cert: its certificate, and those between it and a root, PEM.
        key: its key, PEM; None if it stands in `cert`.
        password_file: a file whose first line is the key's password.
        password: that password, where it does not stand in a file of its own.
        trusted: who signs clients' certificates, PEM.
        client_auth: whether clients show one.
        mode: permissive servers take plain connections too.
    """

    cert: Path
    key: Path | None = None
    password_file: Path | None = None
    password: str | None = None
    trusted: Path | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    mode: Mode = Mode.PERMISSIVE

    def paths(self) -> list[Path]:
        """Return the files that are read."""
        every = (self.cert, self.key, self.password_file, self.trusted)
        return [each for each in every if each is not None]


def context(tls: TlsFiles) -> ssl.SSLContext:
    """Return what a server wraps connections in.

    Raises:
        AccessError: a file is missing or is not what it should be, or clients are to be verified
            and nothing says by what.
    """
    for path in tls.paths():
        _refuse_unreadable(path)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_own(made, tls)
    if tls.client_auth is not ClientAuth.NONE:
        if tls.trusted is None:
            raise AccessError(
                f"clients are to show a certificate ({tls.client_auth.value}), and nothing says "
                "who signs them: give --tls-trusted, or tls.server.trustCertPath"
            )
        _load_trusted(made, tls.trusted)
    made.verify_mode = _VERIFY[tls.client_auth]
    return made


class Renewed:
    """The context of files that others renew, such as cert-manager."""

    def __init__(self, tls: TlsFiles) -> None:
        """Read the files.

        Raises:
            AccessError: as `context`.
        """
        self._tls = tls
        for path in tls.paths():
            _refuse_unreadable(path)
        self.context: ssl.SSLContext
        """For the next connection; those that are there keep theirs."""
        self._renewal = files.Renewal(tls.cert, tls.paths, self._take)

    def _take(self, _paths: list[Path]) -> None:
        self.context = context(self._tls)

    def tick(self) -> str | None:
        """Read the files again if they changed; return why the new ones are not in force, once.

        A certificate and its key are two files: where one of them is new already, this is said,
        and both are in force at the look after the other came.
        """
        news = self._renewal.look()
        return None if news is None else news.error

    @property
    def is_broken(self) -> bool:
        """Tell whether the newest files cannot be used, and those before them count."""
        return self._renewal.error is not None


def read_properties(path: Path) -> TlsFiles | None:
    """Return what a broker's `tls.properties` says; None where its mode is disabled.

    Raises:
        AccessError: it cannot be read, or says what a server of ours cannot do.
    """
    _refuse_unreadable(path)
    try:
        given = properties.load(path.read_bytes())
    except UsageError as error:
        raise AccessError(f"{path}: {error}") from None
    mode = _choice(path, given, "tls.server.mode", Mode, Mode.PERMISSIVE)
    if mode is Mode.DISABLED:
        return None
    cert, key = given.get("tls.server.certPath"), given.get("tls.server.keyPath")
    if _is_true(given, "tls.test.mode.enable", default=True):
        raise AccessError(
            f"{path}: tls.test.mode.enable is true if it is not there, so a broker makes a "
            "certificate that nobody knows. Set it to false, with tls.server.certPath and "
            "tls.server.keyPath"
        )
    if not cert or not key:
        raise AccessError(f"{path} needs tls.server.certPath and tls.server.keyPath")
    auth = _choice(path, given, "tls.server.need.client.auth", ClientAuth, ClientAuth.NONE)
    trusted = given.get("tls.server.trustCertPath")
    if not _is_true(given, "tls.server.authClient", default=False):
        auth, trusted = _unverified(path, auth), None
    return TlsFiles(
        Path(cert),
        Path(key),
        password=given.get("tls.server.keyPassword") or None,
        trusted=Path(trusted) if trusted else None,
        client_auth=auth,
        mode=mode,
    )


def _unverified(path: Path, auth: ClientAuth) -> ClientAuth:
    """Return what a broker that verifies nobody asks for."""
    if auth is ClientAuth.REQUIRE:
        raise AccessError(
            f"{path}: tls.server.need.client.auth=require lets every certificate in, even one that "
            "a client made for itself, because tls.server.authClient is not true. Set it to true, "
            "with tls.server.trustCertPath; or ask for no certificate"
        )
    return ClientAuth.NONE


def _load_own(made: ssl.SSLContext, tls: TlsFiles) -> None:
    key, was_asked = tls.key or tls.cert, False

    def password() -> bytes | str:
        nonlocal was_asked
        was_asked = True
        if tls.password_file is not None:
            return tls.password_file.read_bytes().split(b"\n", 1)[0].rstrip(b"\r")
        if tls.password is not None:
            return tls.password
        # OpenSSL would ask the terminal.
        raise AccessError(f"{key} has a password: give --tls-key-password-file")

    try:
        made.load_cert_chain(tls.cert, tls.key, password)
    except AccessError:
        # It is a ValueError too.
        raise
    except ValueError:
        # OpenSSL's most for a password, which Python checks.
        found = tls.password_file or "tls.server.keyPassword"
        raise AccessError(
            f"{found}: a password has 1024 bytes at most; is it the right file?"
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise AccessError(f"{key} is not the key of {tls.cert}") from None
        if was_asked:
            raise AccessError(f"the password does not open {key}") from None
        said = tls.cert.read_bytes()
        if tls.key is None and b"CERTIFICATE-" in said and b"PRIVATE KEY-" not in said:
            raise AccessError(
                f"{tls.cert} has no key: give the key's file with --tls-key"
            ) from None
        raise AccessError(
            f"{tls.cert} is not a certificate with its key in {key}, both PEM "
            f"({error.reason or error})"
        ) from None


def _load_trusted(made: ssl.SSLContext, trusted: Path) -> None:
    try:
        made.load_verify_locations(trusted)
    except ssl.SSLError as error:
        why = f"{trusted} has no certificates, PEM, that clients' could be signed with"
        raise AccessError(f"{why} ({error.reason or error})") from None


def _refuse_unreadable(path: Path) -> None:
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        _refuse(path, error)


def _refuse(path: Path, error: OSError) -> NoReturn:
    raise AccessError(
        f"{path}: {error.strerror}. Is the path the one of this machine, and may this user read it?"
    ) from None


def _is_true(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    return given[name].lower() == "true" if name in given else default


def _choice(
    path: Path, given: Mapping[str, str], name: str, kind: type[Kind], default: Kind
) -> Kind:
    text = given.get(name, "").strip().lower()
    if not text:
        return default
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(each.value for each in kind)
        raise AccessError(f"{path}: {name}={text} is not one of {known}") from None
