"""N stores in one job on a real Spark cluster: written beside executors, and by the driver.

    python benchmarks/scale_out.py --stores 1,2,4,8 --runs 3 [--gib 2] [--json]

A standalone master and one worker of --cores cores run on the loopback. The messages, ~285 bytes
with three index entries each, are shared out among N stores, so that each N has about the same
work; a run is a job of its own, from its first batch to everything being on disk, and its rate is
the sum over its stores. Runs of all N and both placements take turns. Driver ms are processor time
of the driver, its JVM included, for a batch; a store's part of a batch is one row, so they must not
grow with the messages. Everything that was started is ended by its process id.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.logs import write_log  # noqa: E402
from reput.formats.rocketmq import names  # noqa: E402
from reput.streaming.settings.config import store_config  # noqa: E402
from reput.streaming.settings.model.choices import Placement  # noqa: E402

QUEUES = 32
_HERE = "127.0.0.1"
_START_SECONDS = 120


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HERE, 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def cluster(work: Path, cores: int):
    """Run a master and a worker; yield the master's address."""
    import pyspark  # noqa: PLC0415

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": _HERE,
        "SPARK_DAEMON_MEMORY": "256m",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
    }
    port = free_port()
    address = f"spark://{_HERE}:{port}"
    deploy = "org.apache.spark.deploy"
    with contextlib.ExitStack() as running:
        for role, arguments in (
            ("master", [f"{deploy}.master.Master", "--port", str(port)]),
            ("worker", [f"{deploy}.worker.Worker", "--cores", str(cores), "--memory", "4g",
                        "--work-dir", str(work / "executors"), address]),
        ):  # fmt: skip
            log = running.enter_context((work / f"{role}.log").open("wb"))
            command = [home / "bin" / "spark-class", *arguments, "--host", _HERE]
            command += ["--webui-port", str(free_port())]
            process = subprocess.Popen(
                [str(word) for word in command],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment,
            )  # fmt: skip
            running.callback(process.wait)
            running.callback(process.terminate)
            wanted = "New state: ALIVE" if role == "master" else "Successfully registered"
            wait_for_text(work / f"{role}.log", wanted, process)
        yield address


def wait_for_text(path: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while text not in path.read_text("utf-8", "replace"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"it has not started; see {path}")
        time.sleep(0.1)


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_job(master: str, placement: str, stores: str, output: str, batch_bytes: int) -> None:
    """Be the driver of one run, and print its figures."""
    from reput.streaming.dispatch.warm import load_kernels  # noqa: PLC0415
    from reput.streaming.job.job import Job  # noqa: PLC0415
    from reput.streaming.source.datasource import register  # noqa: PLC0415
    from reput.streaming.spark.session import build_session  # noqa: PLC0415
    from reput.streaming.writers.job_options import JobOptions  # noqa: PLC0415

    configs = [
        store_config(path, Path(output) / path.name) for path in sorted(Path(stores).iterdir())
    ]
    options = JobOptions(
        available_now=True, placement=Placement(placement), max_batch_bytes=batch_bytes
    )
    spark = build_session(
        "scale-out", master,
        **{"spark.driver.host": _HERE, "spark.executor.memory": "512m", "spark.log.level": "OFF"},
    )  # fmt: skip
    register(spark)
    load_kernels()
    jvm = spark.sparkContext._gateway.proc.pid  # noqa: SLF001
    job = Job(configs, options)
    batches = []
    dispatch = job._dispatch_batch  # noqa: SLF001

    def counted(*arguments) -> None:
        before = time.process_time() + cpu_seconds(jvm)
        dispatch(*arguments)
        batches.append(time.process_time() + cpu_seconds(jvm) - before)

    job._dispatch_batch = counted  # noqa: SLF001
    before = time.process_time(), cpu_seconds(jvm)
    summary = job.run(spark)
    driver = time.process_time() - before[0] + cpu_seconds(jvm) - before[1]
    spark.stop()
    values = summary.as_dict()
    print(
        json.dumps(
            {
                "messages": values["messages"],
                "seconds": values["seconds"],
                "rate": values["messages_per_second"],
                "batches": len(batches),
                "driver_cpu_seconds": round(driver, 3),
                "driver_ms_per_batch": round(statistics.median(batches) * 1000, 1),
                "writer_cpu_seconds": summary.writer_cpu_seconds or 0.0,
            }
        )
    )


def measure(master: str, placement: str, stores: Path, batch_bytes: int) -> dict[str, float]:
    """Run one job in a process of its own."""
    for path in stores.rglob("0*"):
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=stores.parent, prefix="output-") as output:
        command = [sys.executable, __file__, "--job", master, placement, stores, output]
        done = subprocess.run(
            [*map(str, command), str(batch_bytes)],
            capture_output=True, text=True, cwd=ROOT, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(done.stderr[-4000:])
        shown = json.loads(done.stdout.splitlines()[-1])
    return {**shown, "process_seconds": round(time.monotonic() - began, 2)}


def main() -> None:
    if sys.argv[1:2] == ["--job"]:
        master, placement, stores, output, batch_bytes = sys.argv[2:]
        run_job(master, placement, stores, output, int(batch_bytes))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", default="1,2,4,8")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--gib", type=float, default=2, help="of all stores' logs together")
    parser.add_argument("--body", type=int, default=90, help="bytes of a message's, on average")
    parser.add_argument("--batch-megabytes", type=int, default=1024)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--placements", default="executors,driver")
    parser.add_argument("--directory", type=Path, help="for stores and outputs; a temporary one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.stores.split(",")]
    runs = []
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="scale-out-") as name:
        work = Path(name)
        for count in counts:
            for number in range(count):
                store = work / f"stores-{count}" / f"store-{number:03d}"
                size = int(arguments.gib * (1 << 30) / count)
                write_log(store / names.COMMITLOG, size, arguments.body, QUEUES, number + 1)
        with cluster(work, arguments.cores) as master:
            for _ in range(arguments.runs):
                for count in counts:
                    for placement in arguments.placements.split(","):
                        figures = measure(
                            master, placement, work / f"stores-{count}",
                            arguments.batch_megabytes << 20,
                        )  # fmt: skip
                        load = round(os.getloadavg()[0], 1)
                        run = {"stores": count, "placement": placement, "load": load, **figures}
                        runs.append(run)
                        print(json.dumps(run), file=sys.stderr, flush=True)
    report(runs, as_json=arguments.json)


def report(runs: list[dict], *, as_json: bool) -> None:
    groups: dict[tuple[str, int], list[dict]] = {}
    for run in runs:
        groups.setdefault((run["placement"], run["stores"]), []).append(run)
    rows = []
    for (placement, count), group in sorted(groups.items()):
        rates = [run["rate"] for run in group]
        row = {"placement": placement, "stores": count, "rate": statistics.median(rates)}
        row |= {"min": min(rates), "max": max(rates), "per_store": row["rate"] / count}
        for figure in ("driver_cpu_seconds", "writer_cpu_seconds", "driver_ms_per_batch",
                       "process_seconds"):  # fmt: skip
            row[figure] = statistics.median(run[figure] for run in group)
        rows.append(row)
    if as_json:
        print(json.dumps({"load": os.getloadavg()[0], "rows": rows, "runs": runs}))
        return
    print(f"load average {os.getloadavg()[0]:.2f}")
    print(f"{'placement':10} {'stores':>6} {'msg/s':>11} {'min':>11} {'max':>11} {'per store':>11} "
          f"{'driver s':>9} {'writers s':>9} {'driver ms/batch':>16} {'job s':>7}")  # fmt: skip
    for row in rows:
        print(f"{row['placement']:10} {row['stores']:6} {row['rate']:11,.0f} {row['min']:11,.0f} "
              f"{row['max']:11,.0f} {row['per_store']:11,.0f} {row['driver_cpu_seconds']:9.2f} "
              f"{row['writer_cpu_seconds']:9.2f} {row['driver_ms_per_batch']:16.1f} "
              f"{row['process_seconds']:7.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
