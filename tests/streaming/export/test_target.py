"""The directory of an export: nothing of somebody else's goes, nothing of two exports mixes."""

from __future__ import annotations

import errno

import pytest

from reput.formats.errors import UsageError
from reput.streaming.export.target import check, clear, held


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


def test_what_is_exported_is_not_written_over(tmp_path):
    """
    `--overwrite` with a directory above the store would remove the store.
    """
    store = tmp_path / "data" / "store"
    store.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    for target in (store, tmp_path / "data", tmp_path / "link", tmp_path / "data" / "." / "store"):
        with pytest.raises(UsageError, match="is to be read"):
            check(target, overwrite=True, sources=[store])
    with pytest.raises(UsageError, match="is only read"):
        check(store / "exports", overwrite=True, sources=[store])


@pytest.mark.parametrize("name", ["00000000000000000000", "notes.txt", "commitlog", ".reput"])
def test_overwrite_removes_only_what_an_export_writes(tmp_path, name):
    """
    A mistyped `--to` never removes somebody's files.
    """
    for ours in ("part-0.parquet", ".part-0.parquet.crc", "_SUCCESS", "._SUCCESS.crc", "day=2026"):
        (tmp_path / ours).touch()
    check(tmp_path, overwrite=True)
    (tmp_path / name).mkdir()

    with pytest.raises(UsageError, match=f"has not written {name}, and --overwrite would remove"):
        check(tmp_path, overwrite=True)
    assert (tmp_path / name).is_dir()


def test_a_file_system_that_holds_nothing_is_no_hindrance(tmp_path, monkeypatch, caplog):
    """
    The export is made, and said to be unprotected.
    """

    def refuse(*_):
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr("fcntl.flock", refuse)
    with held(tmp_path, overwrite=False):
        assert "not held against a second export" in caplog.text


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
