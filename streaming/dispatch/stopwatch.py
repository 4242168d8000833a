"""Adds up what the time of a batch goes to."""

from __future__ import annotations

# Waiting for parsed blocks, writing queues, writing the index, syncing files to disk, recording
# that they are.
PHASES = ("parse", "consumequeue", "index", "flush", "record")


class Stopwatch:
    """Adds up seconds by phase until somebody takes them."""

    def __init__(self) -> None:
        self._spent = dict.fromkeys(PHASES, 0.0)

    def add(self, phase: str, seconds: float) -> None:
        """Count seconds that a phase has taken."""
        self._spent[phase] += seconds

    def take(self) -> dict[str, float]:
        """Return the seconds spent since the last call, by phase; no zeros."""
        spent, self._spent = self._spent, dict.fromkeys(PHASES, 0.0)
        return {phase: seconds for phase, seconds in spent.items() if seconds}
