"""Does `reput verify` notice every flipped byte? Flips one at a time and counts.

`python benchmarks/flips.py --flips 1000 --seed 1` prints a table by kind of file and exits with 1
if a flip was missed. What is flipped: any byte of any file of outputs that were built from the
stores in tests/goldens, and of those stores themselves (their checkpoint apart: a broker's own is
only checked for plausibility).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent.parent))

from reput.streaming.dispatch.dispatcher import rebuild
from reput.streaming.settings.config import store_config
from reput.streaming.verify.output import verify
from tests.builders import goldens as golden_stores

if TYPE_CHECKING:
    from reput.streaming.settings.config import StoreConfig
    from tests.builders.goldens import GoldenStore

# Each has something of its own: fill, delays, transactions, further queues, extensions.
SCENARIOS = (
    "basic",
    "delay",
    "trans",
    "lmq",
    "extonly",
    "sqlext",
    "minoffset",
    "unclean-recovered",
)
BATCH_TOPIC = "topic-1"
INDEX_HEADER = 40
LONGS = {"4.9.8": 3, "5.3.3": 5, "5.5.0": 6}


@dataclass(frozen=True)
class Region:
    """Bytes of a file of which each one counts."""

    kind: str
    config: StoreConfig
    path: Path
    start: int
    end: int


@dataclass(frozen=True)
class Flip:
    """What became of one flip."""

    region: Region
    position: int
    mask: int
    findings: tuple[str, ...]

    @property
    def was_found(self) -> bool:
        return bool(self.findings)


def build_output(store: GoldenStore, directory: Path, *, batches: bool = False) -> StoreConfig:
    """Build an output of a golden store; `batches`: with a topic of type BatchCQ."""
    source = store.copy_input(directory / "store")
    if batches:
        table = {BATCH_TOPIC: {"topicName": BATCH_TOPIC, "attributes": {"queue.type": "BatchCQ"}}}
        (source / "config").mkdir(exist_ok=True)
        (source / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    output = directory / "output"
    rebuild(source, output, broker_version=store.version, broker_conf=store.conf)
    return store_config(source, output, broker_version=store.version, broker_conf=store.conf)


def regions_of(config: StoreConfig, version: str) -> list[Region]:
    """Return what may be flipped of an output."""
    output = config.output
    slots_end = INDEX_HEADER + 4 * config.settings.index_slots
    regions = []
    for kind in ("consumequeue", "consumequeue_ext", "batchconsumequeue"):
        paths = [path for path in sorted((output / kind).rglob("*")) if path.is_file()]
        regions += [Region(kind, config, path, 0, path.stat().st_size) for path in paths]
    for path in sorted((output / "index").rglob("*"))[skipped_index_files(config) :]:
        size = path.stat().st_size
        bounds = (0, INDEX_HEADER, slots_end, size)
        for part, (start, end) in zip(("header", "slots", "items"), pairwise(bounds), strict=True):
            regions.append(Region(f"index {part}", config, path, start, end))
    if not config.in_place:
        path = output / "checkpoint"
        regions.append(Region("checkpoint longs", config, path, 0, 8 * LONGS[version]))
        regions.append(Region("checkpoint unused", config, path, 8 * LONGS[version], 4096))
    return regions


def skipped_index_files(config: StoreConfig) -> int:
    """Return 1 where the first index file's first item counts from the end of one that is gone."""
    begins_at = min(int(path.name) for path in (config.path / "commitlog").iterdir())
    return int(config.in_place and begins_at > 0)


def flip_one(region: Region, position: int, mask: int) -> Flip:
    """Flip a byte, verify, and put it back."""
    with region.path.open("r+b") as file:
        file.seek(position)
        before = file.read(1)[0]
        file.seek(position)
        file.write(bytes([before ^ mask]))
    try:
        report = verify(region.config)
    finally:
        with region.path.open("r+b") as file:
            file.seek(position)
            file.write(bytes([before]))
    found = [f.kind.value for f in report.findings if Path(f.path) == region.path]
    return Flip(region, position, mask, tuple(found))


def flip_many(regions: list[Region], flips: int, seed: int) -> list[Flip]:
    """Flip bytes one at a time, as many of each kind of region as of any other."""
    choice = random.Random(seed)
    by_kind: dict[str, list[Region]] = {}
    for region in regions:
        by_kind.setdefault(region.kind, []).append(region)
    results = []
    kinds = sorted(by_kind)
    for i in range(flips):
        region = choice.choice(by_kind[kinds[i % len(kinds)]])
        position = choice.randrange(region.start, region.end)
        results.append(flip_one(region, position, choice.randrange(1, 256)))
    return results


def build_regions(
    directory: Path, versions: tuple[str, ...], scenarios: tuple[str, ...]
) -> list[Region]:
    """Build outputs below `directory` and return what may be flipped of them and of the goldens."""
    regions = []
    for version in versions:
        unpacked = golden_stores.unpack(version, directory / "goldens" / version)
        for scenario in scenarios:
            store = golden_stores.load(version, scenario, unpacked)
            config = build_output(store, directory / "built" / version / scenario)
            regions += regions_of(config, version)
            theirs = store_config(
                store.path,
                None,
                in_place=True,
                broker_version=version,
                broker_conf=store.conf,
            )
            regions += regions_of(theirs, version)
        if version.startswith("5"):
            store = golden_stores.load(version, "basic", unpacked)
            config = build_output(store, directory / "batches" / version, batches=True)
            regions += regions_of(config, version)
    return regions


def print_table(results: list[Flip], seconds: float) -> None:
    """Print flips and finds by kind of region, and every flip that was missed."""
    flips = Counter(flip.region.kind for flip in results)
    found = Counter(flip.region.kind for flip in results if flip.was_found)
    print(f"{'region':<20}{'flips':>7}{'found':>7}  named")
    for kind in sorted(flips):
        named = Counter(f.findings[0] for f in results if f.region.kind == kind and f.was_found)
        names = ", ".join(f"{name} {count}" for name, count in named.most_common())
        print(f"{kind:<20}{flips[kind]:>7}{found[kind]:>7}  {names}")
    print(f"{'all':<20}{len(results):>7}{sum(found.values()):>7}  {seconds:.0f} s")
    for flip in results:
        if not flip.was_found:
            print(f"MISSED {flip.region.path} byte {flip.position} mask {flip.mask:#04x}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        regions = build_regions(Path(directory), golden_stores.VERSIONS, SCENARIOS)
        began = time.monotonic()
        results = flip_many(regions, options.flips, options.seed)
    print_table(results, time.monotonic() - began)
    return 0 if all(flip.was_found for flip in results) else 1


if __name__ == "__main__":
    sys.exit(main())
