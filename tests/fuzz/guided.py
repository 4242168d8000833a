"""Coverage-guided fuzzing of what is plain Python, with atheris where it is installed.

`python -m tests.fuzz.guided sql92 CORPUS -max_total_time=300` (libFuzzer's options). The compiled
kernels have no coverage to be guided by: their readable twins are looked at instead, and
`tests.fuzz.run` compares the two.
"""

from __future__ import annotations

import contextlib
import struct
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

IS_AVAILABLE = find_spec("atheris") is not None
_HEAD = struct.Struct(">BqH")
SETTINGS = (
    "messageDelayLevel",
    "storePathCommitLog",
    "storeType",
    "enableDLegerCommitLog",
    "mappedFileSizeCommitLog",
    "maxIndexNum",
    "enableLmq",
    "maxErrorRateOfBloomFilter",
)


def _import() -> dict[str, Callable[[bytes], object]]:  # noqa: C901 - targets by name
    """Import what is under test, while atheris instruments it, and return it by name."""
    import atheris

    with atheris.instrument_imports(include=["reput.formats", "reput.stores"]):
        from reput.formats.errors import UsageError
        from reput.formats.filters import consumerfilter, sql92
        from reput.formats.java import strings
        from reput.formats.rocketmq import (
            broker,
            checkpoint,
            commitlog,
            consumequeue_ext,
            properties,
        )

    def text_of(data: bytes) -> str:
        return data.decode("utf-8", "replace")

    def run_sql92(data: bytes) -> object:
        try:
            found = sql92.parse(
                data[1:].decode("latin-1"), string_operators=bool(data[:1] < b"\x80")
            )
            return found.matches({"a": "1", "b": "x", "TAGS": "2.5"})
        except sql92.ExpressionError:
            return None

    def run_filters(data: bytes) -> object:
        try:
            return consumerfilter.parse(text_of(data))
        except ValueError:
            return None

    def run_record(data: bytes) -> object:
        if len(data) < _HEAD.size:
            return None
        rules, position, left = _HEAD.unpack_from(data)
        flags = commitlog.ReadRules(*(bool(rules >> bit & 1) for bit in range(4)))
        return commitlog.read(data, _HEAD.size, position, position + left, flags)

    def run_properties(data: bytes) -> object:
        return properties.parse(data), strings.hash_code(strings.decode(data))

    def run_conf(data: bytes) -> object:
        # The first byte of a line chooses the setting: names are not for guessing.
        lines = text_of(data).splitlines()
        pairs = {SETTINGS[ord(line[0]) % len(SETTINGS)]: line[1:] for line in lines if line}
        try:
            return broker.settings_of("5.5", pairs)
        except UsageError:
            return None

    def run_units(data: bytes) -> object:
        at = 0
        with contextlib.suppress(ValueError):
            checkpoint.unpack(data)
        try:
            while (unit := consumequeue_ext.unpack(data, at)) is not None:
                at += unit.size
        except ValueError:
            return None
        return at

    return {
        "sql92": run_sql92,
        "filters": run_filters,
        "record": run_record,
        "properties": run_properties,
        "conf": run_conf,
        "units": run_units,
    }


NAMES = ("sql92", "filters", "record", "properties", "conf", "units")


def main() -> None:
    """Run one target until libFuzzer's options say stop."""
    if not IS_AVAILABLE:
        sys.exit(
            "atheris is not installed: pip install atheris (there may be no wheel for this Python)"
        )
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(f"say which: {', '.join(NAMES)}")
    import atheris

    run = _import()[sys.argv.pop(1)]

    def once(data: bytes) -> Any:
        run(data)

    atheris.Setup(sys.argv, once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
