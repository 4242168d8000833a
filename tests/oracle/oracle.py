"""Runs the driver of the real RocketMQ that is in this directory (see README.md)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSIONS = ("5.5.0", "5.3.3", "4.9.8")
"""The RocketMQ versions the driver has been run with."""


class OracleError(RuntimeError):
    """A main of the driver, or its build, ended with an error."""


def build(version: str) -> None:
    """Compiles the driver against that RocketMQ, unless that has been done already."""
    _command([str(HERE / "build.sh"), version], timeout=900, env=dict(os.environ))


def run(
    version: str, main: str, *args: str | Path, timeout: float = 120, heap: str = "512m"
) -> str:
    """Runs one main and returns what it printed.

    The JVM gets its whole heap at once, so that a test's memory does not depend on how the collector
    happens to grow it.
    """
    env = {**os.environ, "HEAP": heap, "LIMIT": str(int(timeout))}
    command = [str(HERE / "run.sh"), version, main, *map(str, args)]
    return _command(command, timeout=timeout + 10, env=env)


def fuzz_stores(version: str, seed: int, count: int, directory: Path) -> list[Path]:
    """Random stores directory/seed, directory/seed+1, ..., each with a .facts file beside it."""
    directory.mkdir(parents=True, exist_ok=True)
    run(version, "Fuzz", str(seed), str(count), directory, timeout=60 + 2 * count)
    return [directory / str(n) for n in range(seed, seed + count)]


def cut_stores(version: str, seed: int, count: int, directory: Path) -> list[Path]:
    """Random stores whose log was cut; see `fuzz_stores`."""
    directory.mkdir(parents=True, exist_ok=True)
    run(version, "Cuts", str(seed), str(count), directory, timeout=60 + 5 * count)
    return [directory / str(n) for n in range(seed, seed + count)]


def config_of(facts: Path) -> dict[str, str]:
    """The broker properties with which the store beside that .facts file was made."""
    for line in facts.read_text(encoding="utf-8").splitlines():
        if line.startswith("config={"):
            inner = line.removeprefix("config={").removesuffix("}")
            return dict(pair.split("=", 1) for pair in inner.split(", ") if pair)
    raise OracleError(f"no config line in {facts}")


def _command(command: list[str], *, timeout: float, env: dict[str, str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env=env, check=False
    )
    if done.returncode != 0:
        raise OracleError(
            f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        )
    return done.stdout
