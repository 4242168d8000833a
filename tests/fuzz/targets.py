"""All targets by name, and which share of a long run's cases each one gets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.fuzz.target import Target


class Entry(NamedTuple):
    """Where a target is, its share of the cases in thousandths, its time for a batch in seconds."""

    module: str
    kind: str
    share: int
    seconds: float = 20.0


# Records are cheap, by ten thousands a second; a whole store takes some tens of milliseconds.
TARGETS = {
    "frames": Entry("target_records", "Frames", 350),
    "scan": Entry("target_records", "Scan", 270),
    "rows": Entry("target_records", "Rows", 140),
    "texts": Entry("target_records", "Texts", 100),
    "broker.conf": Entry("target_texts", "BrokerConf", 20),
    "reput.toml": Entry("target_texts", "ReputToml", 15),
    "sql92": Entry("target_texts", "Sql92", 20),
    "config": Entry("target_texts", "ConfigFiles", 10),
    "filters": Entry("target_texts", "Filters", 20),
    "small": Entry("target_texts", "SmallFiles", 10),
    "usage": Entry("target_texts", "Usage", 2),
    "log": Entry("target_stores", "Log", 15),
    "dispatch": Entry("target_stores", "Dispatch", 6),
    "recovery": Entry("target_stores", "Recovery", 6),
    "verify": Entry("target_stores", "Verify", 6),
    "inspect": Entry("target_stores", "Inspect", 10),
    # Not in a run that does not ask for it: it fails in every way, for the runner's own test.
    "faulty": Entry("faulty", "Faulty", 0, seconds=3.0),
}
NAMES = tuple(name for name, entry in TARGETS.items() if entry.share)


def load(name: str) -> Target:
    """Return a target, made ready to run."""
    entry = TARGETS[name]
    made: Target = getattr(import_module(f"tests.fuzz.{entry.module}"), entry.kind)()
    return made


def seed_of(seed: int, name: str, number: int) -> str:
    """Return what a batch is drawn from; `run --replay` takes it."""
    return f"{name}/{seed}/{number}"
