"""A job whose JVM hangs ends within a pod's grace period, with its outputs closed."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
import yaml

from reput.checkpoints import progress
from reput.streaming.endings.exit_codes import FAILED
from reput.streaming.job import last_resort
from reput.streaming.job.last_resort import PATIENCE_SECONDS, LastResort
from reput.streaming.writers import live
from tests.builders.brokers import Broker
from tests.builders.stores import SMALL

ROOT = Path(__file__).parents[3]
CHART = ROOT / "helm" / "reput"
# The least grace period that the chart takes.
_GRACE_SECONDS = json.loads((CHART / "values.schema.json").read_text())["properties"][
    "terminationGracePeriodSeconds"
]["minimum"]


def test_it_leaves_time_to_close_outputs_within_the_grace_period_of_the_chart():
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    assert values["terminationGracePeriodSeconds"] > PATIENCE_SECONDS + live._ENDING_SECONDS
    assert PATIENCE_SECONDS < _GRACE_SECONDS


def test_a_log_that_nobody_reads_keeps_no_job_from_its_end(monkeypatch):
    """
    A line into a pipe that is full blocks, and with it each line of another thread.
    """
    reads, left = threading.Event(), threading.Event()

    class Full(logging.Handler):
        def emit(self, _record):
            reads.wait()

    done: list[object] = []
    monkeypatch.setattr(last_resort, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(last_resort, "_SAYING_SECONDS", 0.05)
    monkeypatch.setattr(os, "_exit", lambda code: (done.append(code), left.set()))
    handler = Full()
    last_resort.LOG.addHandler(handler)
    try:
        LastResort(lambda: done.append("closed")).begin()
        assert left.wait(30)
    finally:
        reads.set()
        last_resort.LOG.removeHandler(handler)
    assert done == ["closed", FAILED]


@pytest.mark.spark
def test_a_job_ends_though_its_jvm_is_stopped(tmp_path):
    broker = Broker(tmp_path / "store", 1, multi=False)
    end = broker.append(50)
    (tmp_path / "broker.conf").write_text("".join(f"{k}={v}\n" for k, v in SMALL.items()))
    command = [
        sys.executable, "-m", "reput", "run", "--store", broker.store,
        "--output", tmp_path / "out", "--broker-conf", tmp_path / "broker.conf", "--flush", "sync",
    ]  # fmt: skip
    process = subprocess.Popen(
        [str(word) for word in command], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    java = None
    try:
        deadline = time.monotonic() + 90
        while (known := progress.load(tmp_path / "out")) is None or known.end != end:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.1)
        children = psutil.Process(process.pid).children(recursive=True)
        java = next(each for each in children if each.name() == "java")
        java.suspend()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=_GRACE_SECONDS)
    finally:
        if java is not None:
            java.resume()
        if process.poll() is None:
            process.kill()
            process.wait()

    assert process.returncode == FAILED
    assert "the job was asked to end 15 s ago and has not ended" in said
    known = progress.load(tmp_path / "out")
    assert (known.end, known.clean) == (end, True)
