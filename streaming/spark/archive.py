"""An archive of Spark's classes, made once per installation: later sessions start faster."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import reput
from reput.streaming.spark.java import require_java

# Where `import reput` works from: a checkout, or site-packages.
ROOT = Path(reput.__file__).resolve().parent.parent
ARCHIVE_DIRECTORY = Path("~/.cache/reput")
MAKE_ARCHIVE = "-XX:ArchiveClassesAtExit"
QUIET_LOG = "-Xlog:disable -Xlog:all=error:stderr"


def archive_path(java: Path) -> Path:
    """Return where the classes of this Java and this Spark are kept, there or not."""
    import pyspark  # noqa: PLC0415

    release = java.parent.parent / "release"
    identity = f"{java} {release.stat().st_mtime_ns if release.exists() else 0} "
    identity += f"{Path(pyspark.__file__).resolve()} {pyspark.__version__}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    # A container's user may have no home: then this is a place that is not there.
    directory = Path(os.path.expanduser(ARCHIVE_DIRECTORY))  # noqa: PTH111 - which would raise
    return directory / f"spark-{key}.jsa"


def archive_option(java: Path) -> str:
    """Return the Java option that reads the archive, "" if there is none."""
    archive = archive_path(java)
    # Java compares it with its jars, and continues without it where they differ.
    return f"-XX:SharedArchiveFile={archive} {QUIET_LOG}" if archive.is_file() else ""


def archive_classes() -> Path:
    """Keep the classes that a job loads in an archive, so that later sessions start faster.

    Takes some 20 s and 150 MB; a second call finds the archive and does nothing. It belongs to
    one Java and one Spark: others do not find it.

    Raises:
        UsageError: no JDK, or too old a one.
        OSError: the archive cannot be written.
    """
    archive = archive_path(require_java())
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_suffix(f".{os.getpid()}")
    # A JVM writes its archive when it ends, and this process's may be somebody's session.
    command = [sys.executable, "-m", "reput.streaming.spark.typical_job", str(partial)]
    # In a group of its own: Ctrl-C is for this process, which ends the other one.
    subprocess.run(command, check=True, cwd=ROOT, process_group=0)
    partial.replace(archive)
    return archive
