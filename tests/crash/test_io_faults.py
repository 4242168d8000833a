"""A disk that fails is an error with a name, and nothing worse.

The long run is `python -m tests.crash.io_faults`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from reput.checkpoints.disk import changes
from reput.formats.errors import ReputError
from reput.formats.rocketmq import names
from tests.builders.stores import LOG_FILE
from tests.crash.io_faults import (
    FaultError,
    Sequence,
    in_child,
    left_behind,
    remount,
    small_disk,
    try_all,
    try_full_disks,
    try_lost_syncs,
)
from tests.crash.power_loss import KINDS, Material, _finish, check_end

_RECORDS = 12


@pytest.fixture
def scratch(tmp_path):
    """A directory in memory, where nothing waits for a device."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(dir=memory)) if memory.is_dir() else tmp_path
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def material(tmp_path):
    return Material("batch and ext", KINDS["batch and ext"], tmp_path / "material", 1, 40)


class TestFaults:
    @pytest.mark.parametrize("sequence", ["batch and ext", "log replaced"])
    def test_every_call_may_fail(self, scratch, sequence):
        """
        An error that names its file, nothing left open, nothing lost; then the output is completed.
        """
        result = try_all(scratch, (sequence,), records=_RECORDS, seed=1, lasting=False)

        assert result.failures == Counter()
        tried = [row.tried for name, row in result.rows.items() if name.startswith("changes.")]
        assert len(tried) > 10
        assert all(tried)

    def test_a_sync_that_failed_is_not_taken_for_done(self, scratch):
        """
        The kernel says once that pages were lost; a writer that syncs again must not believe it.
        """
        result = try_lost_syncs(scratch, "batch and ext", records=_RECORDS, seed=1)

        assert result.failures == Counter()

    def test_the_check_can_fail(self, tmp_path, monkeypatch):
        """
        A map that is not given back is seen.
        """
        monkeypatch.setattr(changes, "unmap", lambda *_: None)
        with pytest.raises(FaultError, match="map of"):
            try_all(tmp_path, ("plain",), records=_RECORDS, seed=1, lasting=False)


class TestFullDisk:
    def test_of_any_size(self, tmp_path):
        """
        ENOSPC with a file's name wherever the last page goes; completed when there is room.
        """
        step = 3 * changes.PAGE
        result = try_full_disks(tmp_path, "batch and ext", records=_RECORDS, seed=1, step=step)

        assert result.failures == Counter()
        assert result.row("a full disk").raised > 3


class TestReadOnly:
    def test_a_mount(self, tmp_path, material):
        """
        The error says where; when it can be written again the output is completed.
        """
        with small_disk(tmp_path / "disk", 8 << 20):
            path = tmp_path / "disk" / "case"
            sequence = Sequence(material, path)
            sequence._first_life()
            remount(tmp_path / "disk", "ro")
            with pytest.raises(OSError, match=str(path)) as raised:
                material.open(sequence.config)
            remount(tmp_path / "disk", "rw")
            _finish(material, path, 0, random.Random(0))

            assert raised.value.errno == errno.EROFS
            assert left_behind(path) == ""
            assert check_end(material, path) == ""

    def test_somebody_elses(self, tmp_path, material):
        """
        As nobody in particular: permission is denied, by name.
        """
        path = tmp_path / "case"
        sequence = Sequence(material, path)
        sequence._first_life()
        for above in (path, *path.parents):
            if above.is_relative_to(tmp_path.parent.parent):
                above.chmod(0o755)

        def as_nobody() -> str:
            os.setuid(65534)
            try:
                material.open(sequence.config)
            except OSError as error:
                return f"{errno.errorcode[error.errno]} {error.filename}"
            return "opened"

        said = in_child(as_nobody)
        assert said.startswith(f"EACCES {path}")
        _finish(material, path, 0, random.Random(0))
        assert check_end(material, path) == ""


class TestLogUnderUs:
    """The log is the broker's: whatever it does to its files is an error like any other."""

    @pytest.fixture
    def case(self, tmp_path, material):
        path = tmp_path / "case"
        sequence = Sequence(material, path)
        # A log of its own, which can be damaged.
        log = path / "store" / names.COMMITLOG
        log.unlink()
        shutil.copytree(material.stores[0] / names.COMMITLOG, log)
        return path, sequence, log

    def _complete(self, material, path, log):
        shutil.rmtree(log)
        material.link(path, 0)
        _finish(material, path, 0, random.Random(0))
        assert left_behind(path) == ""
        assert check_end(material, path) == ""

    @pytest.mark.parametrize("kept", [0, 1, 100, LOG_FILE // 2, LOG_FILE - 1])
    def test_a_file_that_shrinks(self, case, material, kept):
        """
        Read as far as it goes; no signal, and nothing of it is dispatched that is not there.
        """
        path, sequence, log = case
        ends = material.boundaries[0]

        def shrink() -> str:
            dispatcher = material.open(sequence.config)
            dispatcher.dispatch(ends[len(ends) // 4])
            files = sorted(log.iterdir())
            os.truncate(files[-1], kept)
            with contextlib.closing(dispatcher), contextlib.suppress(OSError, ReputError):
                dispatcher.dispatch(ends[-1])
            return left_behind(path)

        assert in_child(shrink) == ""
        self._complete(material, path, log)

    def test_a_file_that_shrinks_while_it_is_read(self, case, material, monkeypatch):
        """
        Between the look at its size and the reading.
        """
        path, sequence, log = case
        ends = material.boundaries[0]
        last = max(log.iterdir())
        read = os.preadv

        def shrink() -> str:
            dispatcher = material.open(sequence.config)
            dispatcher.dispatch(ends[len(ends) // 4])

            def shrink_and_read(*args):
                if last.stat().st_size > 200:
                    os.truncate(last, 200)
                return read(*args)

            monkeypatch.setattr(os, "preadv", shrink_and_read)
            with contextlib.closing(dispatcher), contextlib.suppress(OSError, ReputError):
                dispatcher.dispatch(ends[-1])
            return left_behind(path)

        assert in_child(shrink) == ""
        self._complete(material, path, log)

    def test_a_file_that_is_replaced(self, case, material):
        """
        By one of the same name with nothing in it.
        """
        path, sequence, log = case
        ends = material.boundaries[0]
        dispatcher = material.open(sequence.config)
        dispatcher.dispatch(ends[len(ends) // 2])
        last = max(log.iterdir())
        last.unlink()
        last.write_bytes(bytes(LOG_FILE))
        with contextlib.closing(dispatcher), contextlib.suppress(ReputError):
            dispatcher.dispatch(ends[-1])
        assert left_behind(path) == ""
        self._complete(material, path, log)


class TestSmallDisk:
    def test_it_is_unmounted(self, tmp_path):
        """
        The fixture of the tests above leaves no mount.
        """
        with small_disk(tmp_path / "disk", 1 << 20):
            pass
        mounts = subprocess.run(["mount"], check=True, capture_output=True, text=True).stdout
        assert str(tmp_path) not in mounts
