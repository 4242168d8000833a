"""`reput export` and the examples of docs/spark.md, run as they stand."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from reput.formats.rocketmq.commitlog import COMPRESSED
from reput.formats.rocketmq.encode import Message
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.stores import SMALL, Log, config_of
from tests.json_schema import fits

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]
DAY = 24 * 3600 * 1000
NOON = 1_700_049_600_000  # 2023-11-15T12:00Z


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    directory = tmp_path_factory.mktemp("export")
    log = Log()
    for i in range(120):
        body = b"body %d" % i if i % 5 else b"\xff\x00"
        log.append(
            Message(
                topic="orders" if i % 3 else "payments",
                body=zlib.compress(body) if i % 4 == 0 else body,
                properties={"TAGS": "A" if i % 2 else "B", "n": str(i), "UNIQ_KEY": f"{i:032X}"},
                queue_id=i % 2,
                queue_offset=i // 6,
                store_timestamp=NOON + i * DAY // 100,
                sys_flag=COMPRESSED if i % 4 == 0 else 0,
            )
        )
    config = config_of(log.write(directory / "store"), directory / "out")
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(log.end)
    dispatcher.close()
    conf = directory / "broker.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in SMALL.items()))
    return directory


def run(*words, **more):
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False, **more
    )


def export(store, *words):
    return run(
        *("-m", "reput", "export", "--store", store / "store", "--output", store / "out"),
        *("--broker-conf", store / "broker.conf", *words),
        cwd=ROOT,
    )


class TestExport:
    def test_parquet_by_day(self, store, tmp_path):
        done = export(
            store,
            *("--to", tmp_path / "t", "--topic", "orders", "--tag", "A", "--by-day", "--json"),
        )
        assert done.returncode == 0, done.stderr
        wanted = [i for i in range(120) if i % 3 and i % 2]
        assert json.loads(done.stdout)["messages"] == len(wanted)
        days = {path.name for path in (tmp_path / "t").iterdir() if path.is_dir()}
        assert days == {"day=2023-11-15", "day=2023-11-16"}
        rows = pq.read_table(tmp_path / "t").to_pylist()
        assert sorted(int(dict(row["properties"])["n"]) for row in rows) == wanted

    def test_json_lines_by_an_expression(self, store, tmp_path):
        done = export(
            store,
            *("--to", tmp_path / "t", "--format", "json", "--sql", "n BETWEEN 10 AND 19"),
            *("--begin", str(NOON), "--filter-mode", "strict"),
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("10 messages to ")
        lines = [
            json.loads(line)
            for path in (tmp_path / "t").glob("*.json")
            for line in path.read_text().splitlines()
        ]
        bodies = {int(line["properties"]["n"]): line.get("bodyText") for line in lines}
        assert bodies == {i: f"body {i}" if i % 5 else None for i in range(10, 20)}

    def test_into_an_empty_directory_and_after_a_kill(self, store, tmp_path):
        """
        What a killed export has left is neither in the way nor in the output.
        """
        left = (
            tmp_path / "t" / "_temporary" / "0" / "task_202611220000000000000000000000000_0000_m_0"
        )
        left.mkdir(parents=True)
        (left / "part-00000.json").write_text('{"topic": "of another export"}\n')
        done = export(store, "--to", tmp_path / "t", "--topic", "orders", "--format", "json")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("80 messages to ")
        lines = [line for p in (tmp_path / "t").glob("*.json") for line in p.open()]
        assert len(lines) == 80

        done = export(store, "--to", tmp_path / "t", "--topic", "payments", "--overwrite")
        assert done.returncode == 0, done.stderr
        assert pq.read_table(tmp_path / "t").num_rows == 40
        assert not list((tmp_path / "t").glob("*.json"))

    def test_a_body_that_is_not_its_senders_is_marked(self, tmp_path):
        """
        A reader of the files can tell such a row from a good one.
        """
        log = Log()
        cut = zlib.compress(b"0123456789" * 20)[:-4]
        for i, (flag, body) in enumerate(((0, b"a"), (1, zlib.compress(b"b")), (1, cut))):
            log.append(Message("t", body, queue_offset=i, sys_flag=flag))
        root = log.write(tmp_path / "store")
        conf = tmp_path / "broker.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in SMALL.items()))
        command = ("-m", "reput", "export", "--store", root, "--broker-conf", conf)
        done = run(*command, "--to", tmp_path / "plain", cwd=ROOT)
        assert done.returncode == 0, done.stderr
        rows = pq.read_table(tmp_path / "plain").to_pylist()
        assert [row["body"] for row in rows] == [b"a", b"b", cut]
        assert [row["bodyProblem"] for row in rows] == [
            *(None, None),
            "not decompressed: the compressed bytes end too early",
        ]
        done = run(*command, "--to", tmp_path / "stored", "--stored-bodies", cwd=ROOT)
        assert done.returncode == 0, done.stderr
        rows = pq.read_table(tmp_path / "stored").to_pylist()
        assert [row["body"] for row in rows] == [b"a", zlib.compress(b"b"), cut]
        assert "bodyProblem" not in rows[0]

    def test_nothing_is_code_1(self, store, tmp_path):
        done = export(store, "--to", tmp_path / "t", "--topic", "none")
        assert done.returncode == 1, done.stderr

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (("--tag", "A", "--sql", "a = 1"), "two kinds of one filter"),
            (("--sql", "a ="), "SQL92 filter 'a ='"),
            (("--sql", "a LIKE 'x'", "--filter-mode", "strict"), "takes it for something else"),
            (
                (
                    "--tag",
                    "||",
                ),
                "TAG filter",
            ),
            (
                (
                    "--begin",
                    "noon",
                ),
                "neither ms",
            ),
        ],
    )
    def test_wrong_usage_is_code_2(self, store, tmp_path, words, says):
        done = export(store, "--to", tmp_path / "t", *words)
        assert done.returncode == 2
        assert says in done.stderr
        assert not (tmp_path / "t").exists()

    def test_a_damaged_log_is_exported_as_far_as_it_is_there(self, store, tmp_path):
        """
        Without the option it stops, and names the option. With it all that is whole is there,
        what was passed over is named, and the exit code says that something is missing.
        """
        shutil.copytree(store, tmp_path / "s")
        first, second, *_ = sorted((tmp_path / "s" / "store" / "commitlog").iterdir())
        assert _
        second.unlink()
        stopped = export(tmp_path / "s", "--to", tmp_path / "a")
        done = export(tmp_path / "s", "--to", tmp_path / "b", "--on-corrupt", "skip", "--json")
        answer = json.loads(done.stdout)
        assert fits(answer, "export")
        start, end = int(second.name), 2 * int(second.name)
        rows = pq.read_table(tmp_path / "b").column("physicalOffset").to_pylist()

        assert stopped.returncode == 3
        [said] = stopped.stderr.splitlines()
        assert str(second) in said
        assert said.count("--on-corrupt skip") == 1
        assert "onCorrupt" not in said
        assert done.returncode == 4, done.stderr
        assert answer["complete"] is False
        assert [(g["start"], g["end"]) for g in answer["passed_over"]] == [(start, end)]
        assert answer["messages"] == len(rows)
        assert min(rows) == int(first.name)
        assert max(rows) > end
        assert not [row for row in rows if start <= row < end]

    def test_what_is_there_is_left_alone(self, store, tmp_path):
        (tmp_path / "t").mkdir()
        (tmp_path / "t" / "mine").touch()
        done = export(store, "--to", tmp_path / "t")
        assert done.returncode == 2
        assert "--overwrite" in done.stderr

    def test_a_store_that_is_none_is_code_3(self, tmp_path):
        done = run(
            *("-m", "reput", "export", "--store", tmp_path / "no", "--to", tmp_path / "t"),
            cwd=ROOT,
        )
        assert done.returncode == 3
        assert str(tmp_path / "no") in done.stderr

    def test_a_full_disk_is_one_line(self, store, tmp_path):
        """
        Code 3, for 1 says that no message passed; what Spark says of it is in a file.
        """
        target = tmp_path / "full"
        target.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", target], check=True)
        try:
            done = export(store, "--to", target / "t", "--json")
        finally:
            subprocess.run(["umount", target], check=True)

        assert done.returncode == 3
        [said] = done.stderr.splitlines()
        assert "No space left on device" in said
        details = Path(said.partition("details are in ")[2])
        assert "Caused by: " in details.read_text()
        details.unlink()
        assert json.loads(done.stdout)["exit_code"] == 3

    def test_an_interrupted_one_is_incomplete(self, store, tmp_path):
        """
        Ctrl-C goes to Spark's processes as well, and none has anything to say.
        """
        command = ["-m", "reput", "export", "--store", store / "store", "--to", tmp_path / "t"]
        command += ["--broker-conf", store / "broker.conf"]
        with subprocess.Popen(
            [sys.executable, *map(str, command)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            # Held from before Spark starts.
            while not (tmp_path / "t").is_dir():
                assert process.poll() is None
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGINT)
            said = process.stderr.read()

        assert process.returncode == 4
        [line] = said.splitlines()
        assert "run it again: reput export" in line


class TestExamples:
    def settings(self, store):
        return [f"brokerConf={store / 'broker.conf'}"]

    def test_parquet_by_day(self, store, tmp_path):
        done = run(
            ROOT / "docs/examples/parquet_by_day.py",
            *(store / "store", "orders", tmp_path / "t", f"output={store / 'out'}"),
            *self.settings(store),
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr
        assert pq.read_table(tmp_path / "t").num_rows == 80

    @pytest.mark.parametrize("name", ["parquet_by_day", "delta_append"])
    def test_without_arguments_they_say_how_they_are_used(self, name):
        pytest.importorskip("deltalake")
        done = run(ROOT / f"docs/examples/{name}.py", cwd=ROOT)
        assert done.returncode == 2
        assert f"\n    python docs/examples/{name}.py /data/" in done.stderr

    def test_delta_holds_each_message_once_through_kills(self, store, tmp_path):
        """
        Killed after a commit of the table that Spark has not recorded, and at other moments.
        """
        deltalake = pytest.importorskip("deltalake")
        table = tmp_path / "table"
        words = [
            *(ROOT / "docs/examples/delta_append.py", store / "store", table),
            *(tmp_path / "checkpoint", "", "maxBytesPerTrigger=1k", *self.settings(store)),
        ]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        for commits in (1, 4):
            process = subprocess.Popen(
                [sys.executable, *map(str, words)],
                cwd=ROOT,
                env=environment,
                start_new_session=True,
            )
            log = table / "_delta_log"
            deadline = time.monotonic() + 240
            while len(list(log.glob("*.json")) if log.is_dir() else []) < commits:
                assert process.poll() is None, "it ended by itself"
                assert time.monotonic() < deadline
                time.sleep(0.005)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert len(list(log.glob("*.json"))) < 15
        done = run(*words, cwd=ROOT, env=environment)
        assert done.returncode == 0, done.stderr
        rows = deltalake.DeltaTable(table).to_pyarrow_table()
        counts = Counter(rows["physicalOffset"].to_pylist())
        assert len(counts) == 120
        assert set(counts.values()) == {1}
