"""The image's entry point as a SparkApplication's driver, without the image: spark-submit and all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.builders.waiting import wait_until
from tests.helm.helm_tools import ROOT

WITHIN = 180

pytestmark = pytest.mark.spark


@pytest.fixture
def driver(golden, tmp_path):
    """Start the entry point over a store that a real broker wrote; return it and its log."""
    store = golden("5.3.3", "basic")
    conf, said = tmp_path / "broker.conf", tmp_path / "said"
    conf.write_text("".join(f"{name}={value}\n" for name, value in store.conf.items()))
    script = tmp_path / "entrypoint.sh"
    text = (ROOT / "helm" / "image" / "entrypoint.sh").read_text()
    text = text.replace("/opt/reput/venv/bin", str(Path(sys.executable).parent))
    # Kernels are taken from where these tests have them, as they were compiled here.
    text = text.replace("/proc/cpuinfo", "/dev/null").replace("${NUMBA_CACHE_DIR:-}", "here")
    script.write_text(text)
    line = ["sh", script, "driver", ROOT / "helm" / "image" / "run.py", "run"]
    line += ["--store", store.path, "--output", tmp_path / "out", "--broker-conf", conf]
    line += ["--broker-version", "5.3.3", "--placement", "driver"]
    env = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "TMPDIR": str(tmp_path),
    }
    with said.open("wb") as out:
        process = subprocess.Popen(line, cwd=ROOT, env=env, stdout=out, stderr=out)
    yield process, said
    if process.poll() is None:
        process.kill()


@pytest.mark.parametrize("code", [0, 4])
def test_sigterm_ends_the_job_in_order(driver, tmp_path, code):
    """
    The exit code is the job's: 0 at the log's end, 4 if it has not looked yet. The JVM outlives it.
    """
    process, said = driver
    # The JVM's first line, before it starts the job.
    awaited = b"batch 0 of" if code == 0 else b"\n"
    wait_until(lambda: awaited in said.read_bytes(), WITHIN)
    process.send_signal(signal.SIGTERM)

    assert process.wait(WITHIN) == code, said.read_text()
    text = said.read_text()
    assert ("SIGTERM: ending in order" if code == 0 else "SIGTERM") in text
    assert not Path(f"/proc/{(tmp_path / 'reput.pid').read_text()}").exists()
    assert not (tmp_path / "out" / "abort").exists()
