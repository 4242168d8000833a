"""The whole job with a real Kafka, and Spark's own Kafka sink as docs/kafka.md shows it."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.json_schema import fits
from tests.kafka import stores

if TYPE_CHECKING:
    from tests.kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_rebuild_ends_when_kafka_has_everything(
    broker: Broker, tmp_path: Path, placement: str
) -> None:
    """
    Two stores from one reput.toml; where they are written makes no difference to Kafka.
    """
    logs = {}
    text = ""
    for name in ("one", "two"):
        topic = f"job-{placement}-{name}"
        broker.make_topic(topic)
        log = stores.write(
            tmp_path / name, stores.messages(3000, (topic,), random.Random(len(topic)))
        )
        logs[topic] = log
        text += f'[[store]]\nname = "{placement}-{name}"\npath = "{name}"\noutput = "out-{name}"\n'
        text += 'broker_conf = "broker.conf"\n'
    text += f'[kafka]\nbootstrap = "{broker.address}"\ntransaction_bytes = "100k"\n'
    (tmp_path / "broker.conf").write_text(f"mappedFileSizeCommitLog={stores.FILE_SIZE}\n")
    (tmp_path / "reput.toml").write_text(text)

    done = subprocess.run(
        [sys.executable, "-m", "reput", "rebuild", "--config", str(tmp_path / "reput.toml"),
         "--placement", placement, "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    for topic, log in logs.items():
        assert stores.by_queue(stores.got(broker, topic)) == stores.in_log(log)
    summary = json.loads(done.stdout)
    assert fits(summary, "run")
    if placement == "driver":
        assert [store["kafka"]["messages"] for store in summary["stores"]] == [3000, 3000]
        assert all(store["kafka"]["lag_bytes"] == 0 for store in summary["stores"])


def test_the_example_with_sparks_own_sink_works(broker: Broker, tmp_path: Path) -> None:
    """
    The code in the manual, word for word but for its addresses.
    """
    subprocess.run([str(ROOT / "tests/kafka/build.sh"), "spark"], check=True, timeout=600)
    broker.make_topic("orders-spark")
    log = stores.write(
        tmp_path / "store", stores.messages(2000, ("orders-spark", "other"), random.Random(1))
    )
    text = (ROOT / "docs" / "kafka.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for was, now in (
        ('"/data/rocketmq/store"', repr(str(tmp_path / "store"))),
        ('"path", ', f'"broker.mappedFileSizeCommitLog", {stores.FILE_SIZE}).option("path", '),
        ('"kafka:9092"', repr(broker.address)),
        ('"/data/spark/to-kafka"', repr(str(tmp_path / "checkpoint"))),
        ('build_session("to-kafka")', 'build_session("to-kafka", "local[1]")'),
        ("    .start()", "    .trigger(availableNow=True)\n    .start()"),
    ):
        assert was in example, was
        example = example.replace(was, now)
    (tmp_path / "example.py").write_text(example + "query.awaitTermination()\nspark.stop()\n")
    jars = ",".join(str(path) for path in (ROOT / "tests/kafka/target/spark").glob("*.jar"))
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell",
                   "PYTHONPATH": str(ROOT)}  # fmt: skip

    done = subprocess.run(
        [sys.executable, str(tmp_path / "example.py")],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=400, env=environment,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[int, list[tuple[int, bytes]]] = {}
    for record in broker.read("orders-spark"):
        headers = {name: int(value) for name, value in record.headers}
        place = headers["rmq.queueOffset"], record.value
        found.setdefault(headers["rmq.queueId"], []).append(place)
    wanted = {
        queue_id: rows
        for (topic, queue_id), rows in stores.in_log(log).items()
        if topic == "orders-spark"
    }
    # Spark gives no order; each of them is there.
    assert {queue_id: sorted(rows) for queue_id, rows in found.items()} == wanted
