"""What the chart runs as a server serves: its ConfigMap and its arguments, on a store of our own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import yaml

from reput.remoting.wire.codes import RequestCode, ResponseCode
from tests.builders.served import dispatched, messages
from tests.builders.servers import LOOPBACK, Client, free_port
from tests.builders.stores import SMALL
from tests.helm.helm_tools import CHART, find_tool

if TYPE_CHECKING:
    from pathlib import Path

PULL = {
    "consumerGroup": "g", "topic": "t", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32",
    "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0",
    "subscription": "*",
}  # fmt: skip


def rendered(directory: Path) -> list[dict]:
    conf = "".join(f"      {name}: {value}\n" for name, value in SMALL.items())
    values = directory / "values.yaml"
    values.write_text(
        "stores:\n  - name: broker-a\n    source: {existingClaim: a}\n    brokerConf:\n"
        f"{conf}serve: {{enabled: true, alone: true, sentBack: {{choice: keep, bytes: 64m}}}}\n"
    )
    command = [find_tool("helm"), "template", "r", str(CHART), "-n", "mq", "--values", values]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def connected(port: int, process: subprocess.Popen[bytes]) -> Client:
    until = time.monotonic() + 60
    while True:
        try:
            return Client(port)
        except ConnectionError:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)


def test_a_message_is_pulled_from_what_the_chart_runs(tmp_path):
    dispatched(messages(5), tmp_path).close()
    for name in ("consumequeue", "index"):
        shutil.copytree(tmp_path / "out" / name, tmp_path / "store" / name)
    objects = {each["kind"]: each for each in rendered(tmp_path)}
    assert "StatefulSet" not in objects
    config = tmp_path / "config"
    config.mkdir()
    for name, text in objects["ConfigMap"]["data"].items():
        (config / name).write_text(text.replace("/stores/broker-a", str(tmp_path / "store")))
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    ports = {"10911": free_port(), "9876": free_port(), "9464": free_port()}
    args = [
        each.replace("/etc/reput/", f"{config}/")
        .replace("=/offsets", f"={tmp_path}/offsets")
        .replace("0.0.0.0", LOOPBACK)
        for each in container["args"]
    ]
    for port, free in ports.items():
        args = [
            each.replace(f":{port}", f":{free}").replace(f"={port}", f"={free}") for each in args
        ]
    # No name of a Service is known here.
    args = [f"--advertise={LOOPBACK}" if "--advertise" in each else each for each in args]
    with subprocess.Popen([sys.executable, "-m", "reput", *args]) as process:
        client = connected(ports["10911"], process)
        answer = client.ask(RequestCode.PULL_MESSAGE, **PULL)
        client.close()
        process.terminate()

    assert answer.code == ResponseCode.SUCCESS
    assert answer.body.count(b"UNIQ_KEY") == 5
    assert process.returncode == 0


@pytest.mark.parametrize(
    "name", ["enabled", "port", "namesrvPort", "service", "sentBack", "acl", "tls", "offsets"]
)
def test_null_is_refused_where_nothing_stands_for_it(name):
    values = CHART / "ci" / "minimal-values.yaml"
    command = [find_tool("helm"), "template", "r", str(CHART), "--values", values]
    done = subprocess.run(
        [*command, "--set", "serve.enabled=true", "--set", f"serve.{name}=null"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert f"missing property '{name}'" in done.stderr
