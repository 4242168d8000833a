"""A file that a broker writes again: read when it is whole, and kept as it was until then."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest

from reput.formats.errors import StoreError
from reput.stores.config.followed import Followed


@pytest.fixture
def path(tmp_path):
    (tmp_path / "config").mkdir()
    return tmp_path / "config" / "x.json"


def follow(path) -> Followed:
    return Followed(path.parent.parent, path.name, json.loads, None)


def age(path, seconds: float) -> None:
    written = time.time() - seconds
    os.utime(path, (written, written))


class TestLook:
    def test_it_is_read_again_when_it_has_changed(self, path):
        path.write_text('{"a": 1}')
        followed = follow(path)
        assert (followed.value, followed.look()) == ({"a": 1}, False)
        path.write_text('{"a": 22}')

        assert (followed.look(), followed.value, followed.look()) == (True, {"a": 22}, False)
        assert followed.written == path.stat().st_mtime_ns // 1_000_000

    def test_written_again_with_the_same_text_it_is_as_of_a_later_time(self, path):
        """
        A broker writes its consumers' filters every ten seconds.
        """
        path.write_text("{}")
        age(path, 100)
        followed = follow(path)
        before = followed.written
        age(path, 90)

        assert not followed.look()
        assert followed.written > before

    @pytest.mark.parametrize("text", ["", "{", '{"a": {}', "\xff"])
    def test_while_it_is_being_written_what_was_read_before_counts(self, path, text):
        path.write_text('{"a": 1}')
        followed = follow(path)
        path.write_bytes(text.encode("latin-1"))

        assert (followed.look(), followed.value, followed.take_problem()) == (False, {"a": 1}, None)
        path.unlink()
        assert (followed.look(), followed.value) == (False, {"a": 1})
        path.write_text('{"b": 2}')
        assert (followed.look(), followed.value) == (True, {"b": 2})

    @pytest.mark.parametrize("text", ["{", "{a: {}}", "\xff{}"])
    def test_one_that_stays_damaged_is_told_of_once(self, path, text):
        path.write_text('{"a": 1}')
        followed = follow(path)
        path.write_bytes(text.encode("latin-1"))
        age(path, 10)

        assert (followed.look(), followed.value) == (False, {"a": 1})
        assert followed.take_problem() is not None
        followed.look()
        assert followed.take_problem() is None
        path.write_text('{"b": 2}')
        assert (followed.look(), followed.value) == (True, {"b": 2})


class TestOpen:
    def test_without_a_file_there_is_nothing(self, path):
        assert follow(path).value is None

    @pytest.mark.parametrize("text", [None, "", '{"a', "{no: json}"])
    def test_the_backup_is_read_as_a_broker_that_starts_does(self, path, text):
        if text is not None:
            path.write_text(text)
        path.with_name("x.json.bak").write_text('{"a": 1}')

        assert follow(path).value == {"a": 1}

    def test_a_damaged_file_without_a_backup_is_refused(self, path):
        path.write_text("{no: json}")

        with pytest.raises(StoreError, match=r"x\.json: .*Restore it"):
            follow(path)

    @pytest.mark.parametrize("ahead", [0, 3600])
    def test_a_damaged_file_is_refused_however_new_it_is(self, path, ahead):
        """
        Nothing was said before that could count: records would get the settings of no file.
        """
        path.write_text("no json at all")
        age(path, -ahead)

        with pytest.raises(StoreError, match=r"x\.json: .*Restore it"):
            follow(path)

    @pytest.mark.parametrize("text", ["", '{"a'])
    def test_one_that_is_being_written_is_waited_for(self, path, text):
        path.write_text(text)
        writes = threading.Timer(0.2, path.write_text, ['{"a": 1}'])
        writes.start()
        followed = follow(path)
        writes.join()

        assert followed.value == {"a": 1}

    def test_one_that_stays_empty_says_nothing(self, path):
        path.touch()

        assert follow(path).value is None
