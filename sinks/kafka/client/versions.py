"""Which versions of kafka-python may be used: `sinks.kafka.client` touches its inner parts.

Another version may have the same names and do other things. Only tests with a real Kafka show
that. So these are the exact versions that all tests have run with; pyproject.toml has the same.
"""

from __future__ import annotations

from importlib import metadata

from reput.formats.errors import UsageError

PACKAGE = "kafka-python"
TESTED = ("3.0.12",)


def check_version() -> None:
    """Check that the kafka-python that is installed is one of these versions.

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
