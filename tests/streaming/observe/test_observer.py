"""A job without metrics tells nobody, by the same calls."""

from __future__ import annotations

import inspect

import pytest

from reput.streaming.observe.metrics import Metrics
from reput.streaming.observe.observer import Observer, Unobserved

CALLS = [name for name, each in vars(Observer).items() if inspect.isfunction(each)]
CALLS = [name for name in CALLS if not name.startswith("_")]


@pytest.mark.parametrize("name", CALLS)
def test_metrics_and_none_take_the_same_calls(name):
    wanted = list(inspect.signature(getattr(Observer, name)).parameters)
    taken = list(inspect.signature(getattr(Metrics, name)).parameters)

    assert list(inspect.signature(getattr(Unobserved, name)).parameters) == wanted
    # Metrics may take more, by keyword.
    assert taken[: len(wanted)] == wanted


def test_nobody_is_told():
    nobody = Unobserved()

    assert nobody.error("s", ValueError("bad")) is None
    assert nobody.phases("s", {"flush": 1.0}) is None
    assert vars(nobody) == {}
