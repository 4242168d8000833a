"""What log lines are found and counted by: each word is in one table, in the code and in the docs."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from reput.streaming import events
from reput.streaming.kafka.news import KafkaNews
from reput.streaming.kafka.state import KafkaState

ROOT = Path(__file__).resolve().parents[2]


def test_the_docs_have_each_event():
    """
    And no other: who writes rules for a log collector reads them there.
    """
    text = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    table = text.partition("\n| `event` | when |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [re.match(r"\| (.+?) \|", row)[1] for row in table.splitlines()]

    assert sorted(word.strip("`") for row in rows for word in row.split(", ")) == sorted(events.ALL)


def test_no_event_is_spelled_out_where_it_is_said():
    """
    One that is only there is in neither table.
    """
    for path in sorted((ROOT / "streaming").rglob("*.py")):
        assert not re.search(r'"event": f?"', path.read_text("utf-8")), path


def test_kafka_that_is_held_back_is_said_once(caplog):
    """
    With where it continues, as far as that is known; by its own event, at the level of an error.
    """
    news = KafkaNews()
    with caplog.at_level(logging.INFO, "reput"):
        for _ in range(3):
            news.say("a", KafkaState(end=70, stopped="refused"))
        news.say("b", KafkaState(stopped="refused"))

    assert [(each.levelname, each.event, each.store) for each in caplog.records] == [
        ("ERROR", "kafka", "a"),
        ("ERROR", "kafka", "b"),
    ]
    first, second = (each.getMessage() for each in caplog.records)
    assert "resumes at physical offset 70" in first
    assert "physical offset" not in second
