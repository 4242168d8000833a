"""Certificates that a test makes with openssl."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*words: str, folder: Path) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)


def make(folder: Path) -> Path:
    """Make server and client, signed by ca; stranger, signed by other-ca; locked.key, a password."""
    for name in ("ca", "other-ca"):
        subject = ("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
        openssl("req", "-x509", *_NEW_KEY, *subject, folder=folder)
    for name, ca in (("server", "ca"), ("client", "ca"), ("stranger", "other-ca")):
        subject = ("-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:broker,IP:127.0.0.1")
        signer = ("-CA", f"{ca}.pem", "-CAkey", f"{ca}.key")
        files = ("-keyout", f"{name}.key", "-out", f"{name}.pem")
        openssl("req", "-x509", *_NEW_KEY, *subject, *signer, *files, folder=folder)
    locked = ("-in", "server.key", "-out", "locked.key", "-passout", "pass:geheim")
    openssl("pkcs8", "-topk8", *locked, folder=folder)
    (folder / "password").write_text("geheim\n")
    return folder
