"""A power cut at any place loses nothing, repeats nothing and leaves nothing behind.

The long run is `python -m tests.crash.power_loss`; what the model does, tests/crash/README.md.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from reput.checkpoints import progress
from reput.checkpoints.disk import changes
from reput.sinks.upkeep import rollback
from reput.streaming.dispatch.flushing import Flushing
from reput.streaming.dispatch.resuming import recovery
from tests.crash.model import PAGE, File, Machine, Rules
from tests.crash.power_loss import KINDS, PowerLoss

_STATES = 240
_MOST = 150


@pytest.fixture
def scratch(tmp_path):
    """A directory in memory, where nothing waits for a device."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(dir=memory)) if memory.is_dir() else tmp_path
    yield path
    shutil.rmtree(path, ignore_errors=True)


class TestModel:
    def test_a_page_is_lost_until_it_is_synced(self):
        """
        Every page by itself, in any version that it had, and never once it is on disk.
        """
        file = File()
        file.see(bytes(2 * PAGE))
        file.see(b"a" * 2 * PAGE)
        file.sync(0, PAGE)
        file.see(b"b" * 2 * PAGE)

        assert file.durable == {0: b"a" * PAGE}
        assert file.versions == {0: [b"b" * PAGE], 1: [b"a" * PAGE, b"b" * PAGE]}

    def test_a_failed_sync_is_not_made_good_by_the_next_one(self):
        """
        The kernel takes the page for clean: only a store into it makes it be written again.
        """
        file = File()
        file.see(b"a" * PAGE)
        file.forget(0, PAGE)
        file.sync()
        assert file.durable == {}

        file.see(b"b" * PAGE)
        file.sync()
        assert file.durable == {0: b"b" * PAGE}

    def test_names_are_lost_until_their_directory_is_synced(self, tmp_path):
        """
        A renamed file has its old name, or its new one, and its bytes once they are on disk.
        """
        machine = Machine(tmp_path, Rules())
        with machine.installed():
            changes.write_file(tmp_path / "a", b"one")
            changes.sync_directory(tmp_path)
            changes.rename(tmp_path / "a", tmp_path / "b")
            found = {str(machine.image(random.Random(seed)).files) for seed in range(60)}
            assert found == {"{'a': b'one'}", "{'b': b'one'}"}

            changes.sync_directory(tmp_path)
            found = {str(machine.image(random.Random(seed)).files) for seed in range(60)}
            assert found == {"{'b': b'one'}"}

    def test_bytes_that_were_not_synced_may_be_there_in_part(self, tmp_path):
        """
        Written through a map: any of its pages, or none; its size may be missing, too.
        """
        machine = Machine(tmp_path, Rules())
        with machine.installed():
            changes.make_file(tmp_path / "a", 2 * PAGE)
            changes.sync_directory(tmp_path)
            address = changes.map_file(tmp_path / "a", 2 * PAGE)
            import ctypes

            ctypes.memset(address, 1, 2 * PAGE)
            machine.see_maps()
            found = {machine.image(random.Random(seed)).files["a"] for seed in range(200)}
            kinds = {(len(data), data[:1], data[PAGE : PAGE + 1]) for data in found}
            assert {(0, b"", b""), (2 * PAGE, b"\0", b"\1"), (2 * PAGE, b"\1", b"\0")} <= kinds

            changes.sync_memory(tmp_path / "a", address, PAGE, PAGE)
            found = {machine.image(random.Random(seed)).files["a"] for seed in range(60)}
            assert {data[PAGE:] for data in found} == {b"\1" * PAGE}
            changes.unmap(address, 2 * PAGE)


class TestPowerLoss:
    def test_no_entry_is_lost_repeated_or_wrong(self, scratch):
        """
        States of one, two and three power cuts, of stores of all kinds.
        """
        result = PowerLoss(scratch, seed=1, rules=Rules()).run(_STATES, list(KINDS), a_run=20)

        assert result.failures == []
        assert result.states.total() == _STATES
        assert set(result.cuts) == {1, 2, 3}
        assert set(result.kinds) == set(KINDS)

    def test_an_end_is_the_same_whichever_file_has_expired_by_then(self, scratch):
        """
        The full index file that the checkpoint speaks of, and a queue's only file but one.
        """
        result = PowerLoss(scratch, seed=1000014, rules=Rules()).run(240, ["expiring"])

        assert result.failures == []


def _find(scratch: Path, kinds: list[str], states: int = _MOST, **rules: Any) -> list[str]:
    loop = PowerLoss(scratch, seed=1, rules=Rules(**rules), most_failures=1)
    return loop.run(states, kinds).failures


class TestFaultsAreFound:
    """The model is worth something only if it finds what is left out."""

    @pytest.mark.parametrize("operation", ["sync_memory", "write_file", "sync_directory"])
    def test_nothing_lasts_that_is_not_synced(self, scratch, operation):
        """
        Without msync, without fsync of the records, without syncs of directories.
        """
        assert _find(scratch, ["all"], ignores=frozenset({operation}))

    def test_progress_comes_after_the_flush(self, scratch, monkeypatch):
        """
        A record of progress that comes first names what is not there.
        """
        flush = Flushing.flush

        def save_first(flushing: Flushing, *, clean: bool = False) -> None:
            flushing.save(clean=clean)
            flush(flushing, clean=clean)

        monkeypatch.setattr(Flushing, "flush", save_first)
        assert _find(scratch, ["all"])

    def test_the_checkpoint_comes_after_the_flush(self, scratch, monkeypatch):
        """
        A checkpoint file that comes first has a broker skip what is missing.
        """
        flush = Flushing.flush

        def checkpoint_first(flushing: Flushing, *, clean: bool = False) -> None:
            flushing.write_checkpoint()
            flush(flushing, clean=clean)

        monkeypatch.setattr(Flushing, "flush", checkpoint_first)
        assert any("checkpoint" in failure for failure in _find(scratch, ["all"]))

    def test_what_is_beyond_has_to_go(self, scratch, monkeypatch):
        """
        Continuing without rolling back repeats entries.
        """
        monkeypatch.setattr(recovery, "roll_back_to", lambda *_: None)
        assert _find(scratch, ["all"])

    def test_bytes_beyond_have_to_be_cleared(self, scratch, monkeypatch):
        """
        Files beyond go, but what is beyond in the last one stays.
        """
        monkeypatch.setattr(rollback.changes, "clear", lambda *_: 0)
        assert _find(scratch, ["all"])

    def test_a_record_has_to_be_replaced_at_once(self, scratch, monkeypatch):
        """
        A record of progress that is written in place is there in part, and nothing continues.
        """

        def write_in_place(path: Path, target: Path) -> None:
            if target.name != progress.FILE_NAME:
                rename(path, target)
                return
            changes.write_file(target, path.read_bytes())
            changes.remove_file(path)

        rename = changes.rename
        monkeypatch.setattr(changes, "rename", write_in_place)
        assert _find(scratch, ["plain"], states=4 * _MOST)
