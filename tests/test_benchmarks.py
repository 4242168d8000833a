"""The benchmarks, short: that they run and agree on what was dispatched, not how fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.live.fates import disk_of

ROOT = Path(__file__).resolve().parent.parent
# GiB: some ten thousand messages.
SMALL = "0.005"
CAP_SYS_PTRACE, CAP_SYS_NICE = 19, 23


def run(name: str, *arguments: object) -> str:
    """Run a benchmark as the page on speed says; return what it printed."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_stage_has_a_figure(tmp_path: Path) -> None:
    run("stages", "--gib", SMALL, "--runs", 1, "--directory", tmp_path, "--json", tmp_path / "json")
    found = json.loads((tmp_path / "json").read_text())

    assert set(found) == {
        "read the log", "parse", "check bodies", "index", "queues", "new pages", "to disk",
    }  # fmt: skip
    assert all(found[stage]["ns"] > 0 for stage in ("read the log", "index", "queues", "to disk"))


@pytest.mark.spark
def test_growth_takes_each_size_and_each_number_of_queues(tmp_path: Path) -> None:
    printed = run(
        "growth", "--gib", SMALL, "--queues", "", "--runs", 1,
        "--directory", tmp_path, "--json", tmp_path / "json",
    )  # fmt: skip
    (runs,) = json.loads((tmp_path / "json").read_text()).values()

    assert runs[0]["messages"] > 10_000
    assert runs[0]["rate"] > 0
    assert f"{SMALL} GiB, 128 queues" in printed


@pytest.mark.spark
@pytest.mark.oracle
def test_the_broker_and_ours_dispatch_the_same_messages(tmp_path: Path) -> None:
    printed = run(
        "rebuild", "--gib", SMALL, "--runs", 1, "--directory", tmp_path, "--json", tmp_path / "json"
    )
    document = json.loads((tmp_path / "json").read_text())
    entries = []
    for sides in document["peers"].values():
        (ours,), (theirs,) = sides["reput"], sides["rocketmq"]
        assert ours["messages"] == theirs["messages"] > 10_000
        assert ours["rate"] >= ours["rate_on_disk"] > 0
        assert sides["ratios"]["rate"] == ours["rate"] / theirs["rate"]
        entries.append(ours["index_entries"] / ours["messages"])

    assert entries == [2, 3]
    assert "times the broker's" in printed


@pytest.mark.spark
def test_each_record_of_a_live_log_has_a_latency(tmp_path: Path) -> None:
    run(
        "live", "--rates", 200, "--warm", 2, "--seconds", 2, "--idle", 1, "--runs", 1, "--starts", 1,
        "--directory", tmp_path, "--json", tmp_path / "json",
    )  # fmt: skip
    document = json.loads((tmp_path / "json").read_text())
    ((rate, *_),) = document["latency"]

    assert 0 < rate["p50_ms"] <= rate["p99_ms"] <= rate["max_ms"]
    assert all(len(seconds) == 1 and seconds[0] > 0 for seconds in document["starts"].values())


@pytest.mark.spark
def test_each_store_of_a_job_on_a_cluster_has_latencies(tmp_path: Path) -> None:
    run(
        "live", "--placement", "executors", "--stores", 2, "--rates", 100, "--warm", 2,
        "--seconds", 2, "--idle", 1, "--runs", 1, "--starts", 0, "--directory", tmp_path,
        "--json", tmp_path / "json",
    )  # fmt: skip
    (((rate, idle),),) = (json.loads((tmp_path / "json").read_text())["latency"],)

    assert rate["messages"] > 300
    assert 0 < rate["p50_ms"] <= rate["p99_ms"] <= rate["max_ms"]
    assert idle["idle_cpu_percent"] >= 0


@pytest.mark.spark
def test_two_states_catch_up_in_turn(tmp_path: Path) -> None:
    printed = run(
        "live.catch_up", "--gib", SMALL, "--pairs", 1, "--directory", tmp_path,
        "--json", tmp_path / "json",
    )  # fmt: skip
    found = json.loads((tmp_path / "json").read_text())

    assert list(found) == ["run", "rebuild"]
    for (pair,) in found.values():
        assert all(side["rate"] > 0 < side["anonymous_mib"] for side in pair.values())
        assert all(side["whole"] > 0 for side in pair.values())
    assert "run, whole: " in printed


@pytest.mark.spark
@pytest.mark.kafka
def test_a_message_to_kafka_has_a_latency(tmp_path: Path) -> None:
    run("live.kafka", "--rates", 100, "--warm", 1, "--seconds", 2, "--json", tmp_path / "json")
    (((rate,),),) = (json.loads((tmp_path / "json").read_text()),)

    assert rate["messages"] > 150
    assert 0 < rate["p50_ms"] <= rate["p99_ms"] <= rate["max_ms"]


@pytest.mark.spark
@pytest.mark.oracle
def test_the_broker_dispatches_what_ours_dispatches_beside_it(tmp_path: Path) -> None:
    run(
        "live.beside", "--rates", 200, "--seconds", 2, "--warm", 8, "--runs", 1,
        "--directory", tmp_path, "--json", tmp_path / "json",
    )  # fmt: skip
    sides = json.loads((tmp_path / "json").read_text())["rates"]["200"]
    run("plots", tmp_path, "--beside", tmp_path / "json")

    for side in ("broker", "reput"):
        (figures,) = sides[side]
        assert figures["messages"] == 400
        assert 0 <= figures["p50_ms"] <= figures["p99_ms"] <= figures["max_ms"]
        assert figures["slower"] == sorted(figures["slower"])
    assert (tmp_path / "latency.png").stat().st_size > 10_000


@pytest.mark.spark
def test_a_store_in_trouble_has_another_one_measured(tmp_path: Path) -> None:
    run(
        "live.fates", "--troubles", "none,corrupt,backlog", "--warm", 2, "--seconds", 1,
        "--gigabytes", SMALL, "--directory", tmp_path, "--json", tmp_path / "json",
    )  # fmt: skip
    fine, corrupt, backlog = json.loads((tmp_path / "json").read_text())

    for number in (1, 2):
        assert backlog[f"start_{number}"]["messages"] > 500
        assert fine[f"start_{number}"]["exit_code"] == 0
        assert corrupt[f"start_{number}"]["exit_code"] == 4
        assert corrupt[f"start_{number}"]["messages"] > 500


@pytest.mark.spark
def test_a_store_whose_disk_is_full_or_hangs_has_another_one_measured(tmp_path: Path) -> None:
    for trouble in ("full", "hang"):
        try:
            with disk_of(trouble, tmp_path / trouble):
                pass
        except (subprocess.CalledProcessError, OSError):
            pytest.skip("no file system can be mounted here: needs root")
    run(
        "live.fates", "--troubles", "full,hang", "--warm", 2, "--seconds", 1, "--starts", 1,
        "--directory", tmp_path, "--json", tmp_path / "json",
    )  # fmt: skip
    full, hang = json.loads((tmp_path / "json").read_text())

    assert full["start_1"]["exit_code"] == 3
    assert full["start_1"]["messages"] > 500 < hang["start_1"]["messages"]


@pytest.mark.oracle
def test_the_broker_and_ours_find_the_same_keys(tmp_path: Path) -> None:
    """
    The benchmark itself compares what both have found.
    """
    printed = run(
        "query", "--scale", 100, "--files", 8, "--runs", 1, "--as-it-is", "--directory", tmp_path
    )
    document = json.loads(printed)

    assert set(document) == {"one", "many"}
    for figures in document.values():
        for kind in ("index", "message"):
            for state in ("cold", "warm", "cold_many", "warm_many"):
                assert set(figures[f"{kind}_{state} p50"]) == {"rocketmq", "reput", "ratio"}
        assert figures["id_warm p50"]["reput"][0] > 0
        assert figures["shell ms"]["reput"][0] > 0


def test_two_states_take_turns(tmp_path: Path) -> None:
    printed = run(
        "paired", "--gib", SMALL, "--pairs", 2, "--directory", tmp_path, "--json", tmp_path / "json"
    )
    pairs = json.loads((tmp_path / "json").read_text())

    assert [list(pair) for pair in pairs] == [["this", "other"], ["other", "this"]]
    assert all(seconds > 0 for pair in pairs for side in pair.values() for seconds in side.values())
    assert [line.split("  ")[0] for line in printed.splitlines()[2:]] == [
        "rebuild",
        "query key",
        "query offset",
        "start after a kill",
    ]


def check_serving(document: dict) -> None:
    """Every part has a figure, and each pull brought messages."""
    assert all(run["pulls_per_second"] > 0 for runs in document["pulls"].values() for run in runs)
    assert document["idle"]["core"] >= 0
    # Those of a small log, of which the quietest have none.
    assert document["queues"] > 50
    assert all(seconds > 0 for seconds in document["starts"])


SHORT_SERVING = (
    "--seconds", 0.5, "--gib", 0.02, "--queues", 200, "--connections", 20, "--pairs", 1,
)  # fmt: skip


def test_a_served_store_is_measured_alone(tmp_path: Path) -> None:
    run("serve", *SHORT_SERVING, "--without-broker", "--json", tmp_path / "json")
    document = json.loads((tmp_path / "json").read_text())

    check_serving(document)
    assert set(document["pulls"]) == {"reput"}
    assert document["ratios"] == []


def test_many_served_stores_are_measured_at_rest(tmp_path: Path) -> None:
    """It ends with an error where a pull is answered, or a store is not served."""
    run(
        "serve.many", "--stores", 3, "--connections", 6, "--seconds", 0.5, "--runs", 1,
        "--json", tmp_path / "json",
    )  # fmt: skip
    (found,) = json.loads((tmp_path / "json").read_text())
    assert found["core"] > 0


@pytest.mark.oracle
def test_the_broker_and_ours_answer_the_same_pulls(tmp_path: Path) -> None:
    """The load client ends with an error at any answer without messages."""
    printed = run("serve", *SHORT_SERVING, "--json", tmp_path / "json")
    document = json.loads((tmp_path / "json").read_text())
    (ours,), (theirs,) = document["pulls"]["reput"], document["pulls"]["rocketmq"]

    check_serving(document)
    assert ours["bytes_a_pull"] == pytest.approx(theirs["bytes_a_pull"], rel=0.2)
    assert document["ratios"] == [ours["pulls_per_second"] / theirs["pulls_per_second"]]
    assert "ratio of the pairs" in printed


def needs_cold_pages(directory: Path) -> None:
    """Skip where pages cannot be taken from another process, or reads of a disk are not counted."""
    status = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines()
    )
    if not all(
        int(status["CapEff"], 16) >> number & 1 for number in (CAP_SYS_PTRACE, CAP_SYS_NICE)
    ):
        pytest.skip("pages of another process cannot be given back: needs root")
    probe = directory / "probe"
    probe.write_bytes(bytes(1 << 20))
    with probe.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        before = psutil.Process().io_counters().read_bytes
        file.read()
        if psutil.Process().io_counters().read_bytes == before:
            pytest.skip("the file system keeps everything in memory, or does not count reads")


@pytest.mark.oracle
def test_cached_pulls_are_measured_beside_cold_ones(tmp_path: Path) -> None:
    """The benchmark ends with an error where what is drained does not come from the disk."""
    needs_cold_pages(tmp_path)
    run(
        "serve.cold", "--gib", 0.5, "--seconds", 0.5, "--rate", 100, "--runs", 1,
        "--json", tmp_path / "json",
    )  # fmt: skip
    found = json.loads((tmp_path / "json").read_text())

    assert set(found) == {"reput", "rocketmq"}
    for (side,) in found.values():
        assert side["alone"]["pulls"] == side["beside"]["pulls"] == 50
        assert side["drained"]["bytes"] > 0
        assert side["drained"]["from_disk"] >= 0.9


@pytest.mark.spark
def test_each_message_of_a_live_store_has_a_latency_to_its_consumer(tmp_path: Path) -> None:
    run(
        "serve.latency", "--rate", 200, "--seconds", 2, "--warm", 1, "--runs", 1,
        "--json", tmp_path / "json",
    )  # fmt: skip
    (found,) = json.loads((tmp_path / "json").read_text())

    assert set(found) == {
        "appended to delivered", "appended to dispatched", "dispatched to delivered",
    }  # fmt: skip
    assert all(way["messages"] == 400 for way in found.values())
    assert found["appended to delivered"]["p50_ms"] > 0


@pytest.mark.oracle
def test_a_stock_consumer_drains_the_broker_and_ours(tmp_path: Path) -> None:
    """The benchmark ends with an error if messages are missing."""
    run("serve.drain", "--messages", 5000, "--pairs", 1, "--json", tmp_path / "json")
    found = json.loads((tmp_path / "json").read_text())

    assert found["messages"] > 3000
    (ours,), (theirs,) = found["rates"]["reput"], found["rates"]["rocketmq"]
    assert found["ratios"] == [ours / theirs]
