"""A job begins though the disk of one of its stores hangs, and takes signals meanwhile."""

from __future__ import annotations

import shutil
import threading
from contextlib import closing
from dataclasses import replace

import pytest

from reput.checkpoints import progress
from reput.formats.errors import StoreError, UsageError
from reput.streaming.cli.jobs.job import _checked
from reput.streaming.cli.jobs.looks import Looks
from reput.streaming.cli.jobs.run import _awaited
from reput.streaming.settings.config import store_config
from reput.streaming.settings.reput_toml import read_config
from reput.streaming.writers.job_options import JobOptions
from reput.streaming.writers.live import LiveWriters
from tests.builders.brokers import Broker
from tests.builders.stores import config_of
from tests.builders.waiting import wait_until


@pytest.fixture
def configs(tmp_path):
    """Three stores; the second one is not there."""
    found = []
    for seed, name in enumerate("abc"):
        broker = Broker(tmp_path / name, seed)
        broker.append(5)
        found.append(replace(config_of(broker.store, tmp_path / f"out-{name}"), name=name))
    shutil.rmtree(tmp_path / "b")
    return found


@pytest.fixture
def disk():
    """Stands for a disk that hangs, until it is set."""
    back = threading.Event()
    yield back
    back.set()


class TestLooks:
    def test_a_store_that_hangs_is_told_and_not_asked_again(self, configs, disk):
        asked = []

        def look(config) -> str:
            asked.append(config.name)
            return config.name if config.name != "b" or disk.wait() else ""

        looks = Looks(0.2)
        for _ in range(2):
            first, second, third = looks.ask(look, configs)
            assert (first, third) == ("a", "c")
            assert isinstance(second, TimeoutError)
            assert str(second.filename) == str(configs[1].path)
            assert "hangs" in str(second)
        assert asked.count("b") == 1
        disk.set()
        wait_until(lambda: looks.ask(look, configs) == ["a", "b", "c"])

    def test_one_known_to_hang_is_not_waited_for(self, configs, disk):
        looks = Looks(0.2)
        looks.ask(lambda config: config.name == "b" and disk.wait(), configs)
        looks._seconds = 3600

        assert isinstance(looks.ask(lambda _: "", configs)[1], TimeoutError)

    def test_errors_are_answers(self, configs):
        assert _awaited(configs, Looks()) == set()
        (configs[1].path / "commitlog").mkdir(parents=True)
        assert _awaited(configs, Looks()) == {"b"}
        with pytest.raises(StoreError):
            _awaited([replace(configs[1], path=configs[1].path / "none")], Looks())

    def test_what_is_not_there_answers(self, configs):
        assert Looks().silent([[each.path, each.output] for each in configs]) == [None] * 3


class TestConfig:
    @pytest.fixture
    def path(self, tmp_path, configs):
        """A file whose second store has its output in the store itself, which is refused."""
        path = tmp_path / "reput.toml"
        path.write_text(
            "".join(
                f'[[store]]\nname = "{each.name}"\npath = "{each.name}"\noutput = "{output}"\n'
                f'broker_conf = "{each.name}.conf"\n'
                for each, output in zip(configs, ("out-a", "b/out", "out-c"), strict=True)
            )
        )
        for each in configs:
            (tmp_path / f"{each.name}.conf").write_text("mappedFileSizeCommitLog=4096\n")
        return path

    def test_places_on_a_disk_that_hangs_are_left_alone(self, path):
        error = TimeoutError(110, "no answer", "b")
        told = []

        def silent(places):
            told.append(places)
            return [error if group[0].name == "b" else None for group in places]

        with pytest.raises(UsageError, match="inside"):
            read_config(path)
        found = read_config(path, silent=silent)
        assert [each.is_unchecked for each in found] == [False, True, False]
        assert told[1][1] == [path.parent / "b", path.parent / "b/out"]

    @pytest.mark.parametrize("hangs", ["all", "conf"])
    def test_a_job_without_a_disk_or_its_settings_ends(self, path, hangs):
        def silent(places):
            is_conf = places[0][0].suffix == ".conf"
            error = TimeoutError(110, "no answer", str(places[0][0]))
            errors = [None] * 2 if hangs == "conf" else [error] * 2
            return [error if is_conf == (hangs == "conf") else None, *errors]

        with pytest.raises(TimeoutError, match="no answer"):
            read_config(path, silent=silent)


class TestChecks:
    """
    What a store that is away at the start would have been refused for, it is refused for later.
    """

    @pytest.fixture
    def stores(self, golden, tmp_path, configs):
        """One that is well, and one of 4.9 that is to be written as of 5.5, which is away."""
        source = golden("4.9.8", "basic")
        away = store_config(
            tmp_path / "old", tmp_path / "out-old", broker_version="5.5", broker_conf=source.conf
        )
        return [configs[0], away], source.path

    def test_the_version_of_a_store_that_was_away(self, stores):
        configs, path = stores
        checked = _checked(configs, Looks())
        assert [each.check is not None for each in checked] == [False, True]
        with closing(LiveWriters(checked, JobOptions(), observe=lambda *_: None)) as writers:
            writers.begin()
            assert isinstance(writers.failure("old"), StoreError)
            shutil.copytree(path, configs[1].path)
            wait_until(lambda: isinstance(writers.failure("old"), UsageError))
            assert "looks like a store of 4.9" in str(writers.failure("old"))
        assert progress.load(configs[1].output) is None

    def test_the_version_of_a_store_that_is_there(self, stores):
        configs, path = stores
        shutil.copytree(path, configs[1].path)
        with pytest.raises(UsageError, match=r"looks like a store of 4\.9"):
            _checked(configs, Looks())

    def test_the_only_store_has_to_answer(self, stores):
        configs, _ = stores
        with pytest.raises(StoreError):
            _checked(configs[1:], Looks())

    def test_places_that_nobody_has_compared(self, stores):
        configs, path = stores
        shutil.copytree(path, configs[1].path)
        inside = replace(
            configs[1], output=configs[1].path / "config", is_unchecked=True, any_version=True
        )
        with pytest.raises(UsageError, match="inside"):
            _checked([configs[0], inside], Looks())
