"""Which versions of kafka-python are let in: `sinks.kafka.client.producer` touches its inner parts.

Another one may have the same names and do other things, and a test with a real Kafka is what tells.
So these are the exact versions that all tests have run with; pyproject.toml has the same.
"""

from __future__ import annotations

from importlib import metadata

from reput.formats.errors import UsageError

PACKAGE = "kafka-python"
TESTED = ("3.0.12",)


def check_version() -> None:
    """Look whether the kafka-python that is installed is one that is known.

    Raises:
        UsageError: it is another one, or there is none.
    """
    tested = " or ".join(TESTED)
    try:
        found = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError as error:
        raise UsageError(
            f"{PACKAGE} is not installed, and messages to Kafka need it: install {tested}"
        ) from error
    if found not in TESTED:
        raise UsageError(
            f"{PACKAGE} {found} is installed, and messages to Kafka were tested with {tested} "
            f"only. Install that: {PACKAGE}=={TESTED[-1]}"
        )
