"""The column brokerName is the broker's name where its settings say it, else the store's."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.datasource import EqualTo

from reput.stores.log.commitlog import CommitLog
from reput.stores.log.places import commitlog_directories
from reput.streaming.source.options import parse
from reput.streaming.source.pushdown.choosing import choose
from reput.streaming.source.pushdown.wanted import Wanted
from reput.streaming.source.rows import read_wanted
from tests.builders.stores import SMALL, Log, fill

OPTIONS = {f"broker.{name}": value for name, value in SMALL.items()}


@pytest.fixture
def made(tmp_path):
    log = fill(Log(), 1, 20)
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=broker-a\n")
    return log, log.write(tmp_path / "store"), conf


def stores_of(path, **options):
    return parse({"path": str(path), **OPTIONS, **options}).stores


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "store"),
        ({"brokerConf": "CONF"}, "broker-a"),
        ({"broker.brokerName": "broker-b"}, "broker-b"),
        ({"brokerConf": "CONF", "broker.brokerName": "broker-b"}, "broker-b"),
        ({"broker.brokerName": ""}, "store"),
    ],
)
def test_it_is_in_the_rows_and_filters_go_by_it(made, options, expected):
    """
    What a filter on the column names is read, and nothing else; the store's name stays its own.
    """
    log, path, conf = made
    given = {name: value.replace("CONF", str(conf)) for name, value in options.items()}
    (store,) = stores_of(path, **given)
    batches = list(read_wanted(store, [(0, log.end)], fail_on_data_loss=True))

    assert store.name == "store"
    assert {name for batch in batches for name in batch["brokerName"].to_pylist()} == {expected}
    files = CommitLog(commitlog_directories(path, store.settings), store.settings)
    for name, is_read in ((expected, True), ("another", False)):
        wanted = Wanted.of([EqualTo(("brokerName",), name)])
        choice = choose(store, files, 0, log.end, wanted, is_record=True)
        assert bool(choice.ranges) == is_read
    files.close()


def test_each_store_of_a_query_has_its_own(made):
    _, path, conf = made
    table = {
        "x": {"path": str(path), "brokerConf": str(conf)},
        "y": {"path": str(path), "broker": {"brokerName": "broker-y"}},
        "z": str(path),
    }

    stores = parse({"stores": json.dumps(table), **OPTIONS}).stores

    assert [(store.name, store.shown_name) for store in stores] == [
        ("x", "broker-a"),
        ("y", "broker-y"),
        ("z", "z"),
    ]
