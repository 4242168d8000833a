"""The commands of `reput inspect`, each imported when it is asked for."""

from __future__ import annotations

from reput.streaming.cli.app import group

_FILES = "reput.streaming.cli.inspect.files"
COMMANDS = {
    name: f"{_FILES}:{name}"
    for name in ("commitlog", "consumequeue", "ext", "batch", "index", "checkpoint")
}
app = group(
    COMMANDS, help="Show what stands in one file of a store, byte for byte, damaged or not."
)
