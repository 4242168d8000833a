"""Stores that real brokers wrote, packed into one archive for each version.

`python tests/builders/goldens.py DIRECTORY` packs again what `tests/oracle` has written there
(DIRECTORY/VERSION/SCENARIO beside SCENARIO.facts).
"""

from __future__ import annotations

import io
import lzma
import re
import shutil
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

ARCHIVES = Path(__file__).parents[1] / "goldens"
VERSIONS = ("4.9.8", "5.3.3", "5.5.0")
SCENARIOS = (
    "abort-only-log",
    "basic",
    "batch",
    "delay",
    "extonly",
    "flags",
    "lmq",
    "longtopic",
    "minoffset",
    "propcrc",
    "restart",
    "sqlext",
    "trans",
    "unclean",
    "unclean-dirty",
    "unclean-recovered",
    "unclean.live",
)
# What 4.9 does not know: topics above 127 bytes, a CRC of the properties.
SINCE_FIVE = {"longtopic", "propcrc"}
GOLDENS = tuple(
    (version, scenario)
    for version in VERSIONS
    for scenario in SCENARIOS
    if not (version.startswith("4") and scenario in SINCE_FIVE)
)
PARTS = (
    "abort",
    "batchconsumequeue",
    "checkpoint",
    "commitlog",
    "config",
    "consumequeue",
    "consumequeue_ext",
    "index",
)
OUTPUTS = ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index")
# Made from `unclean`, so these state no configuration of their own.
DERIVED_FROM = "unclean"
_CONFIG = re.compile(r"config=\{(.*)\}")


@dataclass(frozen=True)
class GoldenStore:
    """One store as a broker left it."""

    path: Path
    version: str
    scenario: str
    conf: dict[str, str]

    def copy_input(self, target: Path) -> Path:
        """Copy only what a dispatch reads into `target`: commitlog and config."""
        for part in ("commitlog", "config"):
            if (self.path / part).is_dir():
                shutil.copytree(self.path / part, target / part)
        return target

    def copy(self, target: Path) -> Path:
        """Copy the whole store to `target`."""
        return Path(shutil.copytree(self.path, target))


def unpack(version: str, target: Path) -> Path:
    """Unpack all scenarios of a version into `target`, unless they are there, and return it."""
    if not target.is_dir():
        with tarfile.open(ARCHIVES / f"{version}.tar.xz") as archive:
            # The archives are our own; Python before 3.11.4 has no filters yet.
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(target, **safely)
    return target


def load(version: str, scenario: str, directory: Path) -> GoldenStore:
    """Return a store from a directory that `unpack` has filled."""
    found = None
    for name in (scenario, DERIVED_FROM):
        facts = directory / f"{name}.facts"
        found = found or (facts.is_file() and _CONFIG.search(facts.read_text("utf-8")))
    pairs = found[1].split(", ") if found else []
    conf = dict(pair.split("=", 1) for pair in pairs)
    return GoldenStore(directory / scenario, version, scenario, conf)


def pack(root: Path, version: str) -> int:
    """Pack the scenarios of a version and return the archive's bytes."""
    files = [
        path
        for path in (root / version).rglob("*")
        if path.is_file() and _is_kept(path.relative_to(root / version))
    ]
    # Files of a kind beside each other: a quarter of a per cent smaller, and always the same.
    files.sort(key=lambda path: path.relative_to(root / version).parts[1:2] + path.parts)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for path in files:
            info = tarfile.TarInfo(path.relative_to(root / version).as_posix())
            info.size = path.stat().st_size
            with path.open("rb") as file:
                archive.addfile(info, file)
    packed = lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    (ARCHIVES / f"{version}.tar.xz").write_bytes(packed)
    return len(packed)


def _is_kept(path: Path) -> bool:
    return path.suffix == ".facts" if len(path.parts) == 1 else path.parts[1] in PARTS


if __name__ == "__main__":
    for each in VERSIONS:
        print(each, pack(Path(sys.argv[1]), each))
