"""A job whose JVM hangs ends within a pod's grace period, with its outputs closed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from reput.checkpoints import progress
from reput.streaming.endings.exit_codes import FAILED
from reput.streaming.job.last_resort import PATIENCE_SECONDS
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
