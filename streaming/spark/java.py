"""The Java that Spark starts: it has to be there, and not too old."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from reput.formats.errors import UsageError

OLDEST_JAVA = 17
_INSTALL = (
    f"Spark needs a JDK {OLDEST_JAVA} or later. Install one (Debian, Ubuntu: apt-get install "
    f"openjdk-{OLDEST_JAVA}-jdk-headless; Fedora: dnf install java-{OLDEST_JAVA}-openjdk-headless),"
    " then have java on PATH or set JAVA_HOME"
)


def require_java() -> Path:
    """Return the `java` that Spark will start.

    Raises:
        UsageError: there is none, or one too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise UsageError(f"no java is on PATH and JAVA_HOME is not set. {_INSTALL}")
    java = Path(found).resolve()
    if not java.is_file():
        raise UsageError(f"JAVA_HOME is {home}, but {found} is not there. {_INSTALL}")
    release = java.parent.parent / "release"
    text = release.read_text("utf-8", "replace") if release.is_file() else ""
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    if not text:
        # A script that starts the real one; it takes a moment to say its version.
        version = re.search(r'version "(?:1\.)?(\d+)', _version_said(java))
    if version and int(version[1]) < OLDEST_JAVA:
        raise UsageError(f"{found} is Java {version[1]}. {_INSTALL}")
    return java


def _version_said(java: Path) -> str:
    """Return what a `java` prints as its version, "" if it does not start."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout
