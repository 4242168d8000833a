"""The directory of an export: nothing of somebody else's goes, nothing of two exports mixes."""

from __future__ import annotations

import pytest

from formats.errors import UsageError
from streaming.export_target import check, clear, held


def test_an_empty_directory_and_none_are_taken(tmp_path):
    with held(tmp_path, overwrite=False):
        assert list(tmp_path.iterdir()) == []
    with held(tmp_path / "a" / "b", overwrite=False):
        assert (tmp_path / "a" / "b").is_dir()


def test_what_a_killed_export_leaves_is_no_hindrance(tmp_path):
    """
    Spark moves files out of `_temporary` when all are written, so nothing in it was exported; left
    there, the next export would take them for its own.
    """
    left = tmp_path / "_temporary" / "0" / "task_1"
    left.mkdir(parents=True)
    (left / "part-0.parquet").touch()
    with held(tmp_path, overwrite=False):
        clear(tmp_path)

        assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays_without_overwrite(tmp_path):
    (tmp_path / "part-0.parquet").touch()
    (tmp_path / "_temporary").mkdir()
    with pytest.raises(UsageError, match="something already"):
        check(tmp_path, overwrite=False)
    check(tmp_path, overwrite=True)


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "file").touch()
    for overwrite in (False, True):
        with pytest.raises(UsageError, match="this is a file"):
            check(tmp_path / "file", overwrite=overwrite)


def test_two_exports_do_not_write_to_one_directory(tmp_path):
    with (
        held(tmp_path, overwrite=True),
        pytest.raises(UsageError, match="another export"),
        held(tmp_path, overwrite=True),
    ):
        pass
    with held(tmp_path, overwrite=False):
        pass


def test_links_are_removed_and_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").touch()
    target = tmp_path / "target"
    target.mkdir()
    (target / "link").symlink_to(outside)
    clear(target)

    assert (outside / "mine").exists()
    assert list(target.iterdir()) == []
