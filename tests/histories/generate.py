"""Draws histories: random steps, each with a seed of its own."""

from __future__ import annotations

import random

from tests.histories.points import NAMES, PARSED, WRITTEN
from tests.histories.steps import Step, step

_SEEDS = 1_000_000
_POINTS = (PARSED, PARSED, WRITTEN, WRITTEN, *NAMES)
# Of the histories, those whose log's times tell of no write.
_QUIET = 0.2
_VERSIONS = ("5.5.0", "5.5.0", "5.3.3", "4.9.8")


def history(seed: int, number: int, *, is_real: bool = False) -> list[Step]:
    """Return history `number` of a seed; those for real classes are others."""
    pick = random.Random(f"{seed} {number} {is_real}")
    is_quiet = random.Random(f"{seed} {number} quiet").random() < _QUIET
    is_live = random.Random(f"{seed} {number} live").random() < _LIVE
    steps = [_settings(pick, is_quiet=is_quiet, is_live=is_live), step("start"), _put(pick, 12)]
    if pick.random() < 0.85:
        steps.append(step("open"))
    if pick.random() < 0.6:
        steps.append(step("stream"))
    for _ in range(pick.randint(3, 14)):
        steps += _some(pick)
    return steps


# Share of histories in which the job follows the log by itself, as a live one does.
_LIVE = 0.6


def _settings(pick: random.Random, *, is_quiet: bool, is_live: bool) -> Step:
    settings = step(
        "settings",
        version=pick.choice(_VERSIONS),
        log=pick.choice((4096, 8192, 16384)),
        queue=pick.choice((4, 8, 50)),
        items=pick.choice((12, 40, 300)),
        ext=int(pick.random() < 0.2),
        fan=int(pick.random() < 0.2),
        batch=int(pick.random() < 0.2),
    )
    more = [("quiet", "1")] if is_quiet else []
    more += [("live", "1")] if is_live else []
    return settings._replace(values=(*settings.values, *more))


def _seed(pick: random.Random) -> int:
    return pick.randrange(_SEEDS)


def _put(pick: random.Random, most: int = 8) -> Step:
    kinds = ("mixed", "mixed", "same", "same", "same", "large", "zero", "twin", "longer", "shorter")
    return step("put", count=pick.randint(1, most), seed=_seed(pick), kind=pick.choice(kinds))


def _truncate(pick: random.Random) -> Step:
    return step("truncate", back=pick.choice((1, 2, 3, 5, 8, 13)))


def _tear(pick: random.Random) -> Step:
    rest = pick.choice(("zero", "zero", "zero", "zeros", "ones"))
    byte = pick.choice((0, 0, 0, 1, 17, 60, 90, 1000, 5000))
    return step("tear", back=pick.choice((1, 1, 2, 4, 9)), byte=byte, rest=rest)


def _broker(pick: random.Random) -> list[Step]:  # noqa: PLR0911 - a table of chances
    """Return something that a broker does."""
    chance = pick.random()
    if chance < 0.3:
        return [_put(pick)]
    if chance < 0.55:
        return [_truncate(pick), *([_put(pick)] if pick.random() < 0.7 else [])]
    if chance < 0.65:
        return [step(pick.choice(("stop", "crash"))), step("start")]
    if chance < 0.75:
        down = step(pick.choice(("stop", "crash")))
        up = [step("start"), _put(pick)] if pick.random() < 0.9 else []
        return [down, _tear(pick), *up]
    if chance < 0.8:
        return [step("poison", seed=_seed(pick)), _put(pick, 3)]
    if chance < 0.84:
        poisoned = [
            step("poison", seed=_seed(pick)),
            *([_put(pick, 4)] if pick.random() < 0.7 else []),
        ]
        return [*poisoned, step(pick.choice(("stop", "crash"))), step("start"), _put(pick, 4)]
    if chance < 0.9:
        return [step("expire", count=pick.choice((1, 1, 2)))]
    if chance < 0.93:
        return [step("ahead")]
    return [step("clock", delta=pick.choice((-100_000, -3000, -1, 5000, 3_600_000))), _put(pick)]


def _ours(pick: random.Random) -> list[Step]:  # noqa: PLR0911 - a table of chances
    """Return something that happens to our side."""
    chance = pick.random()
    if chance < 0.22:
        return [step("close")]
    if chance < 0.4:
        return [step("open")]
    if chance < 0.55:
        point = pick.choice(_POINTS)
        kill = step(
            "kill",
            at=point,
            number=pick.choice((1, 1, 2, 3, 7)),
            moment=pick.choice(("before", "within", "after")),
            during=pick.choice(("poll", "poll", "open", "close")),
        )
        before = [_put(pick)] if pick.random() < 0.5 else []
        # Something has to be there to be dispatched: not yet, as nobody has looked.
        return [*before, kill]
    if chance < 0.75:
        inner = [each for _ in range(pick.randint(1, 2)) for each in _broker(pick)]
        point = pick.choice((*_POINTS, "planned", "planned"))
        during = pick.choice(("poll", "poll", "poll", "open", "close"))
        number = pick.choice((1, 1, 1, 2, 4))
        seconds = pick.choice(("0", "9"))
        pause = Step(
            "pause",
            (("at", point), ("number", str(number)), ("during", during), ("seconds", seconds)),
            tuple(inner),
        )
        return [step("close"), _put(pick), pause] if pick.random() < 0.6 else [pause]
    if chance < 0.8:
        return [step("flush")]
    if chance < 0.9:
        return [step("stream")]
    what = pick.choice(("file", "file", "queue", "tree", "back", "back"))
    before = [step("keep"), _put(pick)] if what == "back" else []
    return [
        *before,
        step("close"),
        step("lose", what=what, seed=_seed(pick)),
        *([_put(pick)] if pick.random() < 0.5 else []),
        step("open"),
    ]


def _some(pick: random.Random) -> list[Step]:
    return _broker(pick) if pick.random() < 0.62 else _ours(pick)
