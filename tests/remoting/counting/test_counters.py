"""The two kinds of counters take the same, so that a server need not ask which it has."""

from __future__ import annotations

import inspect

from reput.remoting.access.check import Reports
from reput.remoting.counting.counters import Counters, Uncounted
from reput.streaming.observe.serving import ServerCounters


def methods(kind):
    return {
        name: inspect.signature(of)
        for name, of in vars(kind).items()
        if inspect.isfunction(of) and not name.startswith("_")
    }


def test_all_kinds_take_the_same():
    wanted = methods(Counters)

    assert methods(Uncounted) == wanted
    assert {name: methods(ServerCounters)[name] for name in wanted} == wanted
    assert methods(Reports).items() <= wanted.items()


def test_without_metrics_everything_is_taken_and_nothing_said():
    counters = Uncounted()
    for name, signature in methods(Counters).items():
        given = [
            0 for each in list(signature.parameters.values())[1:] if each.kind != each.KEYWORD_ONLY
        ]
        said = {"ready": "is_ready", "tls_read": "is_broken"}
        more = {said[name]: True} if name in said else {}
        assert getattr(counters, name)(*given, **more) is None
