"""The file of offsets: when it is written, what is in it, and what damages it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from subprocess import PIPE
from threading import Event

import pytest

from reput.checkpoints.disk import changes
from reput.formats.errors import FormatError, StoreError, UsageError
from reput.remoting.groups.offset_file import OffsetFile
from reput.remoting.groups.offsets import Seed
from tests.builders.channels import Clock

BROKERS = '{"dataVersion":{"counter":{"value":1}},"offsetTable":{"T1@CG1":{0:24,1:23}}}'
HOLDER = """
import sys
from pathlib import Path
from reput.remoting.groups.offset_file import OffsetFile
path, store = map(Path, sys.argv[1:])
file = OffsetFile(path, store)
file.tick(0.0)
print('held', flush=True)
sys.stdin.read()
file.close()
"""


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store" / "config").mkdir(parents=True)
    (tmp_path / "store" / "config" / "consumerOffset.json").write_text(BROKERS)
    return tmp_path / "store"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "offsets.json"


@pytest.fixture
def opened(path, store):
    found = []

    def opened(seed=Seed.BROKER, **more):
        found.append(OffsetFile(path, store, seed, **more))
        return found[-1]

    yield opened
    for each in found:
        each.close()


def said(path):
    return json.loads(path.read_text())["offsetTable"]


class TestSeed:
    def test_the_broker_s_offsets_are_taken_over_at_once(self, opened, path, store, clock):
        """
        The broker's file may change, or vanish, before the first group commits.
        """
        file = opened()
        assert file.offsets.of("CG1", "T1") == {0: 24, 1: 23}
        file.tick(clock.now)

        assert said(path) == {"T1@CG1": {"0": 24, "1": 23}}
        assert (store / "config" / "consumerOffset.json").read_text() == BROKERS

    def test_from_scratch(self, opened, path):
        opened(Seed.SCRATCH).close()
        assert said(path) == {}

    def test_a_file_of_ours_counts_whatever_the_seed(self, opened, path):
        path.parent.mkdir()
        path.write_text('{"offsetTable":{"t@g":{"0":5}}}')
        assert opened().offsets.document() == {"offsetTable": {"t@g": {0: 5}}}

    def test_a_store_without_offsets(self, opened, store):
        (store / "config" / "consumerOffset.json").unlink()
        assert opened().offsets.document() == {"offsetTable": {}}

    @pytest.mark.parametrize("text", ['{"offsetTable":{"t@g":{0:}}}', '{"offsetTable":{"t@g', ""])
    def test_a_damaged_file_of_the_broker(self, opened, store, text):
        (store / "config" / "consumerOffset.json").write_text(text)
        with pytest.raises(StoreError, match=r"consumerOffset\.json"):
            opened()

    def test_a_broker_s_file_that_is_not_whole_has_another_beside_it(self, opened, store):
        config = store / "config"
        (config / "consumerOffset.json.bak").write_text(BROKERS)
        (config / "consumerOffset.json").write_text(BROKERS[:40])

        assert opened().offsets.of("CG1", "T1") == {0: 24, 1: 23}


class TestSaving:
    def test_changes_are_saved_at_each_tick(self, opened, path, clock):
        file = opened(Seed.SCRATCH)
        for number in range(3):
            file.offsets.set("g", "t", 0, number)
            file.tick(clock.now + number)
            assert said(path) == {"t@g": {"0": number}}

    def test_one_write_at_a_time(self, opened, path, clock, monkeypatch):
        written, answers = [], Event()
        write = changes.write_file

        def slow(path, data):
            written.append(json.loads(data)["offsetTable"])
            answers.wait(60)
            write(path, data)

        monkeypatch.setattr(changes, "write_file", slow)
        with ThreadPoolExecutor(1) as beside:
            file = opened(Seed.SCRATCH, beside=beside)
            for number in range(4):
                file.offsets.set("g", "t", 0, number)
                file.tick(clock.now + number)
            answers.set()
            beside.submit(int).result()
            file.tick(clock.now + 4)
            beside.submit(int).result()

        assert written == [{"t@g": {"0": 0}}, {"t@g": {"0": 3}}]
        assert said(path) == {"t@g": {"0": 3}}

    def test_what_has_not_changed_is_not_written(self, opened, path, clock):
        file = opened()
        file.tick(clock.now)
        path.unlink()
        file.tick(clock.now + 1)

        assert not path.exists()

    def test_the_rest_is_saved_when_it_is_closed(self, opened, path):
        file = opened(Seed.SCRATCH)
        file.offsets.set("g", "t", 0, 1)
        file.close()

        assert said(path) == {"t@g": {"0": 1}}
        assert opened().offsets.find("g", "t", 0) == 1

    def test_each_step_is_on_disk_before_the_next(self, opened, path, monkeypatch):
        steps = []
        for name in ("write_file", "rename", "sync_directory"):
            monkeypatch.setattr(changes, name, self.noted(name, getattr(changes, name), steps))
        opened().close()

        made = [("sync_directory", path.parent.parent)]
        new = path.with_name("offsets.json.new")
        written = [("write_file", new), ("rename", new), ("sync_directory", path.parent)]
        assert steps == made + written

    def noted(self, name, call, steps):
        def noting(path, *args):
            steps.append((name, path))
            return call(path, *args)

        return noting

    def test_another_thread_may_wait_for_the_disk(self, opened, path, clock):
        with ThreadPoolExecutor(1) as beside:
            file = opened(Seed.SCRATCH, beside=beside)
            file.offsets.set("g", "t", 0, 1)
            file.tick(clock.now)
            file.offsets.set("g", "t", 0, 2)
            file.close()

        assert said(path) == {"t@g": {"0": 2}}

    @pytest.mark.parametrize("is_beside", [False, True])
    def test_a_disk_that_fails_is_tried_again(
        self, opened, path, clock, monkeypatch, caplog, is_beside
    ):
        full = OSError(28, "No space left on device", str(path))

        def fail(*_):
            raise full

        with ThreadPoolExecutor(1) as beside:
            file = opened(beside=beside if is_beside else None)
            with monkeypatch.context() as patch:
                patch.setattr(changes, "write_file", fail)
                file.tick(clock.now)
                if is_beside:
                    beside.submit(int).result()
            file.tick(clock.now + 1)
            file.close()

        assert file.failures == 1
        assert "No space left" in caplog.text
        assert said(path) == {"T1@CG1": {"0": 24, "1": 23}}

    @pytest.mark.parametrize("is_beside", [False, True])
    @pytest.mark.parametrize("is_made_again", [False, True])
    def test_a_directory_that_was_removed_is_made_again(
        self, opened, path, store, clock, caplog, is_beside, is_made_again
    ):
        with ThreadPoolExecutor(1) as beside:
            file = opened(beside=beside if is_beside else None)
            shutil.rmtree(path.parent)
            if is_made_again:
                path.parent.mkdir()
            file.offsets.set("g", "t", 0, 7)
            file.tick(clock.now + 1)
            beside.submit(int).result()
            file.tick(clock.now + 2)

        assert said(path)["t@g"] == {"0": 7}
        assert file.unsaved_seconds == 0
        assert f"{path.parent} is not the directory that it was" in caplog.text
        with pytest.raises(StoreError, match="another process keeps offsets in it"):
            OffsetFile(path, store)

    def test_another_server_may_have_taken_the_one_that_was_made_again(
        self, opened, path, store, clock, caplog
    ):
        file = opened()
        path.parent.rename(path.parent.with_name("away"))
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, path, store], stdin=PIPE, stdout=PIPE
        ) as other:
            assert other.stdout.readline() == b"held\n"
            file.offsets.set("g", "t", 0, 7)
            file.tick(clock.now + 1)
            assert "t@g" not in said(path)
            other.communicate(b"end")
        assert "another process keeps offsets in it" in caplog.text
        assert file.unsaved_seconds > 0 or file.failures == 1
        file.tick(clock.now + 2)

        assert said(path)["t@g"] == {"0": 7}

    def test_the_age_grows_while_the_disk_takes_nothing(
        self, opened, path, clock, monkeypatch, caplog
    ):
        def fail(*_):
            raise OSError(28, "No space left on device", str(path))

        caplog.set_level("INFO", "reput")
        file = opened()
        with monkeypatch.context() as patch:
            patch.setattr(changes, "write_file", fail)
            for seconds in range(0, 90, 3):
                file.tick(clock.now + seconds)
        assert file.unsaved_seconds == 87
        file.tick(clock.now + 90)

        assert file.unsaved_seconds == 0
        cannot, again = (each.message for each in caplog.records)
        assert "cannot be saved" in cannot
        assert "saved again" in again

    def test_the_age_grows_while_the_disk_hangs(self, opened, clock, monkeypatch):
        """
        Then there is no failure to count.
        """
        answers = Event()
        write = changes.write_file

        def hang(*given):
            answers.wait(60)
            write(*given)

        monkeypatch.setattr(changes, "write_file", hang)
        with ThreadPoolExecutor(1) as beside:
            file = opened(beside=beside)
            for seconds in range(0, 90, 3):
                file.tick(clock.now + seconds)
            assert (file.unsaved_seconds, file.failures) == (87, 0)
            file.offsets.set("CG1", "T1", 0, 25)
            answers.set()
            beside.submit(int).result()
            # What came meanwhile waits since the write began, or less.
            file.tick(clock.now + 90)
            assert file.unsaved_seconds == 90
            beside.submit(int).result()
            file.tick(clock.now + 91)
            assert file.unsaved_seconds == 0

    def test_a_failure_at_the_end_is_the_caller_s(self, path, store, monkeypatch, caplog):
        file = OffsetFile(path, store)

        def fail(*_):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(changes, "write_file", fail)
        with pytest.raises(OSError, match="Input/output"):
            file.close()
        # Of several stores: the caller tells of the first one that fails.
        assert f"offsets of groups are not saved in {path} at the end" in caplog.text
        monkeypatch.undo()
        OffsetFile(path, store).close()
        assert said(path) == {"T1@CG1": {"0": 24, "1": 23}}


class TestDamage:
    """A damaged file is never taken for none: every group would consume everything again."""

    @pytest.mark.parametrize(
        ("text", "at"),
        [
            (b"", 0),
            (b'{"offsetTable":{"t@g":{"0":5', 28),
            (b'{"offsetTable":{"\xc3\xa4@g":{"0":x}}}', 28),
            (b'{"offsetTable":{"t@g":{"0":5}\xff}', 29),
            (b'{"offsetTable":{"t@g":{"0":1},"u@g":{"0":"x"}}}', 30),
            (b'{"offsetTable":[]}', 1),
            (b'{"offsetTable":null}', 1),
            (b'{"dataVersion":{},"subscriptionGroupTable":{}}', 0),
            (b"[]", 0),
        ],
    )
    def test_it_is_named_with_the_byte(self, opened, path, text, at):
        path.parent.mkdir()
        path.write_bytes(text)
        with pytest.raises(FormatError) as caught:
            opened()

        assert (caught.value.path, caught.value.position) == (str(path), at)
        assert path.read_bytes() == text
        # The lock is free again.
        path.unlink()
        assert opened().offsets.version == 0


def test_the_broker_s_file_is_never_ours(store):
    for name in ("consumerOffset.json", "offsets.json"):
        with pytest.raises(UsageError, match="broker's files"):
            OffsetFile(store / "config" / name, store)


def test_a_link_to_it_is_not_either(store, tmp_path):
    link = tmp_path / "offsets.json"
    link.symlink_to(store / "config" / "consumerOffset.json")
    with pytest.raises(UsageError, match="broker's files"):
        OffsetFile(link, store)


def test_two_servers_do_not_share_a_file(opened, path, store):
    opened()
    with pytest.raises(StoreError, match="another process"):
        OffsetFile(path, store)
