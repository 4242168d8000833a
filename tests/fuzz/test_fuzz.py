"""Damaged input of every kind: an answer or a named error, never a crash, a hang or all memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import faulty, guided, targets
from tests.fuzz.run import Options, Run

# Together below a minute; `python -m tests.fuzz.run` is the long run.
_CASES = {"frames": 4000, "scan": 4000, "rows": 4000, "texts": 3000, "inspect": 200}
_FEW = 400
_STORES = {"log": 60, "dispatch": 25, "recovery": 25, "verify": 25}


@pytest.mark.parametrize("name", targets.NAMES)
def test_damage_gives_an_answer_or_a_named_error(name: str, tmp_path: Path) -> None:
    """
    Whatever the bytes are, the process lives and says something that a user can act on.
    """
    cases = _CASES.get(name, _STORES.get(name, _FEW))
    result = Run(name, cases, Options(seed=0, keep=tmp_path / "kept", scratch=tmp_path)).run(
        lambda _done: None
    )

    assert result.failures == []
    assert result.cases >= cases


def test_runner_sees_every_way_to_fail(tmp_path: Path) -> None:
    """
    A kernel that reads a byte too many, a hang, memory without end: each is a failure with a seed.
    """
    options = Options(seed=4, memory=256, keep=tmp_path / "kept", scratch=tmp_path)
    result = Run("faulty", 12, options).run(lambda _done: None)
    ways = {(path / "way").read_text("ascii") for path in (tmp_path / "kept").iterdir()}
    signatures = " ".join(failure["signature"] for failure in result.failures)

    assert ways == set(faulty.WAYS) - {"fine"}
    assert "SIGSEGV" in signatures
    assert "no end within" in signatures
    assert "KeyError" in signatures
    assert "WrongError" in signatures
    assert result.cases == 12


@pytest.mark.skipif(not guided.IS_AVAILABLE, reason="atheris is not installed")
@pytest.mark.parametrize("name", guided.NAMES)
def test_guided_by_coverage(name: str, tmp_path: Path) -> None:
    """
    What random damage does not reach, damage that looks for new branches may.
    """
    command = [sys.executable, "-m", "tests.fuzz.guided", name, "-runs=3000", "-seed=1"]
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [*command, f"-artifact_prefix={tmp_path}/"], cwd=root, capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-2000:]
