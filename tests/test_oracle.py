"""The real RocketMQ judges: random stores byte for byte, and our output opened as its own."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import subprocess
import sys

import pytest

from reput.formats.rocketmq import indexfile
from reput.streaming.dispatch.dispatcher import rebuild
from reput.streaming.settings.config import store_config
from reput.streaming.verify.output import verify
from tests.builders.goldens import VERSIONS
from tests.oracle import bodies, compare, filters, oracle

pytestmark = pytest.mark.oracle

SMALL = {
    "mappedFileSizeCommitLog": "131072",
    "mappedFileSizeConsumeQueue": "1000",
    "mappedFileSizeConsumeQueueExt": "4096",
    "mapperFileSizeBatchConsumeQueue": "4600",
    "maxHashSlotNum": "101",
    "maxIndexNum": "600",
}


def properties(conf):
    return [f"{name}={value}" for name, value in conf.items()]


def take_over(store, output, target):
    """What an operator does: the log and the configuration are the broker's, the rest is ours."""
    for part in ("commitlog", "config"):
        if (store / part).is_dir():
            shutil.copytree(store / part, target / part)
    for part in ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index"):
        if (output / part).is_dir():
            shutil.copytree(output / part, target / part)
    shutil.copy(output / "checkpoint", target / "checkpoint")


def opened(version, store, conf):
    """Let the real broker open a store; its report. An exit code above 0 raises."""
    return json.loads(oracle.run(version, "Open", store, *properties(conf), timeout=200))


@pytest.mark.parametrize("version", VERSIONS)
def test_random_stores_are_rebuilt_to_the_byte(version, tmp_path):
    """
    Whatever a broker writes, we write; more of them by tests/oracle/differential.py.
    """
    oracle.build(version)
    stores = oracle.fuzz_stores(version, 900_000, 10, tmp_path / "stores")
    for store in stores:
        conf = oracle.config_of(store.with_suffix(".facts"))
        bare = tmp_path / "bare" / store.name
        for part in ("commitlog", "config"):
            if (store / part).is_dir():
                shutil.copytree(store / part, bare / part)
        output = tmp_path / "output" / store.name
        rebuild(bare, output, broker_version=version, broker_conf=conf)

        assert compare.differences(store, output) == []
        config = store_config(bare, output, broker_version=version, broker_conf=conf)
        report = verify(config)
        assert report.findings == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_several", [True, False])
def test_a_log_in_several_directories_is_dispatched_as_the_broker_does(
    version, tmp_path, is_several
):
    """
    One of them read only, which counts only where storePathCommitLog names several (C6): with one
    path a broker does not see the files there.
    """
    oracle.build(version)
    made = oracle.fuzz_stores(version, 910_000, 10, tmp_path / "stores")
    store = max(made, key=lambda each: len(list((each / "commitlog").iterdir())))
    conf = oracle.config_of(store.with_suffix(".facts"))
    theirs = tmp_path / "theirs" / store.name
    places = [theirs / "commitlog", theirs / "second", tmp_path / "old"]
    files = sorted((store / "commitlog").iterdir())
    source = tmp_path / "source" / store.name
    shutil.copytree(store / "config", source / "config")
    (source / "commitlog").mkdir()
    for place in places[1:]:
        place.mkdir(parents=True)
    oldest = len(files) // 2
    for number, path in enumerate(files):
        # Where the read-only one does not count, it has the oldest files.
        place = [source / "commitlog", *places[1:]][number % 3 if is_several else 0]
        shutil.copy(path, places[2] if not is_several and number < oldest else place)
    conf["storePathCommitLog"] = ",".join(map(str, places[:2] if is_several else places[:1]))
    conf["readOnlyCommitLogStorePaths"] = str(places[2])
    pairs = ", ".join(properties(conf))
    (source.parent / f"{source.name}.facts").write_text(f"config={{{pairs}}}\n")
    oracle.run(version, "Rebuild", store.name, "1", source.parent, theirs.parent)

    assert len(files) > 3
    assert any((theirs / "consumequeue").rglob("0*"))
    output = tmp_path / "ours"
    rebuild(theirs, output, broker_version=version, broker_conf=conf)
    assert compare.differences(theirs, output) == []
    assert (compare.differences(store, output) == []) == is_several


@pytest.mark.parametrize("scenario", ["basic", "batch", "delay", "trans", "extonly", "lmq"])
def test_a_real_broker_opens_our_output_as_its_own(golden, tmp_path, scenario):
    """
    5.5.0 loads it: nothing is truncated, rebuilt or logged, every message and key is found.
    """
    version = "5.5.0"
    oracle.build(version)
    store = golden(version, scenario)
    source = store.copy_input(tmp_path / "store")
    rebuild(source, tmp_path / "output", broker_version=version, broker_conf=store.conf)
    take_over(source, tmp_path / "output", tmp_path / "taken")

    report = opened(version, tmp_path / "taken", store.conf)

    assert report["ok"], report


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_the_index_of_an_upgraded_broker_is_sound(golden, tmp_path, version):
    """
    5.5.0 continues where an older version wrote no items for tags: each part is right by its rule,
    and a note says where the older one ends. Damage is found on either side of it.
    """
    oracle.build("5.5.0")
    before = golden(version, "basic")
    store = before.copy(tmp_path / "store")
    config = store_config(store, None, broker_version="5.5", broker_conf=before.conf, in_place=True)
    conf = properties(before.conf)
    oracle.run("5.5.0", "Live", store, "--rate=300", "--seconds=2", *conf)

    report = verify(config)

    assert report.findings == []
    [note] = [note for note in report.notes if "no items for tags" in note.detail]
    files = sorted((store / "index").iterdir())
    assert [str(path) for path in files].index(note.path) > 3
    assert str(files[-1]) > note.path
    for path in (files[0], files[-1]):
        data = path.read_bytes()
        at = indexfile.item_position(1, int(before.conf["maxHashSlotNum"]))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert verify(config).found, path
        path.write_bytes(data)


def test_a_log_of_26_files_is_rebuilt_whole(tmp_path):
    """
    Brokers from 5.4.0 on look back over ten files only; we read all of them.
    """
    version = "5.5.0"
    oracle.build(version)
    conf = {**SMALL, "mappedFileSizeCommitLog": "32768"}
    store = tmp_path / "store"
    oracle.run(version, "Generate", "basic", store, *properties(conf))
    assert len(list((store / "commitlog").iterdir())) >= 26
    bare = tmp_path / "bare"
    shutil.copytree(store / "commitlog", bare / "commitlog")

    rebuild(bare, tmp_path / "output", broker_version=version, broker_conf=conf)

    assert compare.differences(store, tmp_path / "output") == []
    by_broker = json.loads(oracle.run(version, "Replay", bare, "--mode=default", *properties(conf)))
    assert by_broker["messages"] < 3004


def checksum(rows):
    """What `Facts` computes: place, length and bytes of every body, in the log's order."""
    digest = hashlib.sha256()
    for row in sorted(rows, key=lambda row: row.physicalOffset):
        body = bytes(row.body or b"")
        digest.update(struct.pack(">qi", row.physicalOffset, len(body)) + body)
    return digest.hexdigest()


@pytest.mark.spark
@pytest.mark.parametrize("version", VERSIONS)
def test_the_dataframe_has_what_the_brokers_own_decoder_finds(golden, spark, tmp_path, version):
    """
    Count and bodies of batch and stream equal RocketMQ's; so with two stores in one query.
    """
    oracle.build(version)
    stores, facts = {}, {}
    for scenario in ("basic", "flags"):
        source = golden(version, scenario)
        stores[scenario] = {"path": str(source.path), "brokerVersion": version}
        stores[scenario]["broker"] = source.conf
        facts[scenario] = json.loads(oracle.run(version, "Facts", source.path))
    options = {"stores": json.dumps(stores)}

    batch = spark.read.format("rocketmq").options(**options).load().collect()
    stream = spark.readStream.format("rocketmq").options(**options, minPartitions="5").load()
    query = stream.writeStream.format("memory").queryName("facts").trigger(availableNow=True)
    started = query.option("checkpointLocation", str(tmp_path / "spark")).start()
    started.awaitTermination()
    streamed = spark.table("facts").collect()

    for rows in (batch, streamed):
        for scenario, expected in facts.items():
            ours = [row for row in rows if row.brokerName == scenario]
            assert len(ours) == expected["records"]
            assert checksum(ours) == expected["bodies"]


def test_the_differential_command_reports_no_difference(tmp_path):
    """
    The command that users and CI run for any number of stores ends with 0 and says what it did.
    """
    command = [sys.executable, "tests/oracle/differential.py", "--version", "5.5.0"]
    done = subprocess.run(
        [*command, "--stores", "3", "--seed", "77"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 the same, 0 different" in done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_filters_are_the_real_ones(version):
    """
    Equal results, error for error; more of them by ./dev filters.
    """
    differences, kinds = filters.compare(version, 500, 900_000)
    assert differences == []
    # All that can come of an expression did, or the run shows nothing.
    assert {f"SQL92 {kind}" for kind in ("T", "F", "N", "!ParseException")} <= set(kinds)


@pytest.mark.parametrize("version", ["5.5.0", "5.3.3"])
def test_bodies_are_decompressed_as_rocketmq_does(version):
    """
    What MessageDecoder decompresses has the same bytes here; what it refuses is marked.
    """
    oracle.build(version)
    stored = bodies.make(5, 400)
    verdicts = [
        bodies.judge(body, answer)
        for body, answer in zip(stored, bodies.broker_bodies(version, stored), strict=True)
    ]
    assert [verdict for verdict in verdicts if verdict.startswith("WRONG")] == []
    assert verdicts.count("the same") > 200
    assert verdicts.count("refused, ours as stored") > 50
