"""What --store names is what is read, and nothing is written into it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from reput.formats.errors import StoreError, UsageError, recovered
from reput.formats.rocketmq import names
from reput.stores.log.places import commitlog_directories
from reput.streaming.cli.main import main
from reput.streaming.dispatch.dispatcher import StoreDispatcher, rebuild
from reput.streaming.export import target as export_target
from reput.streaming.job.job import Job
from reput.streaming.job.query import fresh_checkpoint
from reput.streaming.settings.config import read_broker_conf, store_config
from reput.streaming.settings.reput_toml import read_config
from reput.streaming.settings.separate import refuse_checkpoint
from reput.streaming.source.datasource import RocketMQDataSource
from reput.streaming.source.options import parse
from reput.streaming.verify.handover import examine
from reput.streaming.verify.output import verify
from reput.streaming.writers.executors.protocol import Spec
from reput.streaming.writers.job_options import JobOptions
from tests.builders.stores import SMALL, Log, files_of, fill


def run(monkeypatch, capsys, *words):
    """Run a command here; return exit code, standard output and standard error."""
    monkeypatch.setattr("sys.argv", ["reput", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    return ended.value.code, shown.out, shown.err


@pytest.fixture
def copied(tmp_path):
    """A live store, a backup with its first file only, and the live broker's settings."""
    log = fill(Log(), 3, 60)
    live = log.write(tmp_path / "live")
    backup = tmp_path / "backup"
    (backup / "commitlog").mkdir(parents=True)
    shutil.copy(live / "commitlog" / names.offset_file(0), backup / "commitlog")
    conf = tmp_path / "broker.conf"
    settings = {**SMALL, "storePathCommitLog": str(live / "commitlog")}
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return log, live, backup, conf


class TestSettingsThatLeadAway:
    @pytest.mark.parametrize(
        "command",
        [
            "query offset 0 --physical",
            "query time 0",
            "query transactions",
            "topics",
            "tail --topic t --seconds 0",
            "verify",
            "handover",
            "rebuild --output OUT",
            "rebuild --repair --output OUT",
            "run --output OUT",
            "export --to OUT",
        ],
    )
    def test_each_command_refuses_them_and_names_both(
        self, copied, tmp_path, monkeypatch, capsys, command
    ):
        """
        A backup that is asked by the settings of its broker must not be answered for by the live
        log: what is found there is not in the backup.
        """
        _, live, backup, conf = copied
        words = command.replace("OUT", str(tmp_path / "out")).split()

        code, shown, error = run(
            monkeypatch, capsys, *words, "--store", backup, "--broker-conf", conf
        )

        assert (code, shown) == (2, "")
        for part in ("storePathCommitLog", str(live / "commitlog"), str(backup / "commitlog")):
            assert part in error
        assert not (tmp_path / "out").exists()

    def test_an_option_says_which_is_meant(self, copied, monkeypatch, capsys):
        log, live, backup, conf = copied
        last = log.places[-1].position
        words = ["query", "offset", last, "--physical", "--store", backup, "--broker-conf", conf]

        there = run(monkeypatch, capsys, *words, "--commitlog", live / "commitlog")
        not_there = run(monkeypatch, capsys, *words, "--commitlog", backup / "commitlog")

        assert there[0] == 0
        assert not_there[0] == 3
        assert "the commitlog holds 0 to " in not_there[2]

    def test_a_link_to_the_same_directory_leads_nowhere_else(self, copied):
        _, live, _, _ = copied
        link = live.parent / "link"
        link.symlink_to(live / "commitlog")

        config = store_config(
            live, live.parent / "o", broker_conf={"storePathCommitLog": str(link)}
        )

        assert commitlog_directories(live, config.settings) == [link]

    def test_a_store_without_a_log_of_its_own_has_it_where_the_setting_says(self, copied):
        _, live, backup, _ = copied
        shutil.rmtree(backup / "commitlog")
        conf = {"storePathCommitLog": str(live / "commitlog")}
        config = store_config(backup, live.parent / "o", broker_conf=conf)

        assert commitlog_directories(backup, config.settings) == [live / "commitlog"]

    @pytest.mark.parametrize("setting", ["storePathCommitLog", "readOnlyCommitLogStorePaths"])
    def test_a_listed_directory_that_is_not_there_is_named_with_its_setting(self, copied, setting):
        """
        A volume that is not mounted would read as records that expired.
        """
        _, live, _, _ = copied
        second = live.parent / "second"
        own = f"{live / 'commitlog'},{second}"
        conf = {"storePathCommitLog": own, "readOnlyCommitLogStorePaths": str(live.parent / "old")}
        if setting != "storePathCommitLog":
            second.mkdir()
        config = store_config(live, live.parent / "o", broker_conf=conf)

        with pytest.raises(StoreError) as raised:
            commitlog_directories(live, config.settings)

        assert f"{setting}={conf[setting]}" in str(raised.value)

    def test_a_data_frame_refuses_them_and_takes_an_option(self, copied):
        _, live, backup, conf = copied
        options = {"path": str(backup), "brokerConf": str(conf)}
        single = {"path": str(backup), "broker.storePathCommitLog": str(live / "commitlog")}

        for given in (options, single):
            with pytest.raises(UsageError, match="leads away"):
                RocketMQDataSource(given).schema()
        (store,) = parse({**options, "commitlog": str(live / "commitlog")}).stores
        assert commitlog_directories(store.path, store.settings) == [live / "commitlog"]
        table = {"b": {"path": str(backup), "commitlog": [str(live / "commitlog")]}}
        (store,) = parse({"stores": json.dumps(table), "brokerConf": str(conf)}).stores
        assert commitlog_directories(store.path, store.settings) == [live / "commitlog"]

    def test_a_table_of_a_file_takes_a_key(self, copied, tmp_path):
        _, live, backup, conf = copied
        table = f"[[store]]\npath='{backup}'\noutput='o'\nbroker_conf='{conf}'\n"
        path = tmp_path / "reput.toml"
        path.write_text(table)
        with pytest.raises(UsageError, match=r"number 1: .*leads away"):
            read_config(path)

        for value in ("'live/commitlog'", "['live/commitlog']"):
            path.write_text(f"{table}commitlog={value}\n")
            (config,) = read_config(path)
            assert commitlog_directories(backup, config.settings) == [live / "commitlog"]
        path.write_text(f"{table}commitlog=1\n")
        with pytest.raises(UsageError, match="commitlog must be"):
            read_config(path)

    def test_a_writer_beside_an_executor_reads_the_same_log(self, copied, tmp_path):
        _, live, backup, conf = copied
        config = store_config(
            backup, tmp_path / "o", broker_conf=conf, commitlog=[live / "commitlog"]
        )

        spec = Spec.of("job", config, JobOptions())

        assert spec.commitlog == [str(live / "commitlog")]


class TestOutputs:
    def refused(self, store, output, **more):
        with pytest.raises(UsageError) as raised:
            store_config(store, output, **more)
        return str(raised.value)

    def test_none_is_in_a_store_above_one_or_the_store(self, tmp_path):
        store = tmp_path / "a" / "store"
        (store / "commitlog").mkdir(parents=True)

        for inside in ("consumequeue", "x", "commitlog/x", "../store/./index/y"):
            assert "is inside the store" in self.refused(store, store / inside)
        assert "inside it" in self.refused(store, tmp_path / "a")
        assert "itself" in self.refused(store, tmp_path / "a" / "b" / ".." / "store")
        assert store_config(store, tmp_path / "a" / "store2").output == tmp_path / "a" / "store2"

    def test_links_are_followed(self, tmp_path):
        store = tmp_path / "store"
        (store / "commitlog").mkdir(parents=True)
        (tmp_path / "link").symlink_to(store)
        output = tmp_path / "output"
        output.mkdir()

        assert "is inside the store" in self.refused(store, tmp_path / "link" / "out")
        assert "is inside the store" in self.refused(tmp_path / "link", store / "out")
        (output / "index").symlink_to(store / "index")
        assert "index, which leads to" in self.refused(store, output)

    def test_none_is_in_a_commitlog_that_is_elsewhere_or_above_it(self, tmp_path):
        store, log = tmp_path / "store", tmp_path / "disk" / "log"
        store.mkdir()
        log.mkdir(parents=True)
        conf = {"storePathCommitLog": str(log)}
        (tmp_path / "led").mkdir()
        (store / "commitlog").symlink_to(tmp_path / "led")

        for output in (log, log / "x", tmp_path / "disk"):
            assert "commitlog" in self.refused(store, output, commitlog=[log])
            (store / "commitlog").unlink()
            assert "commitlog" in self.refused(store, output, broker_conf=conf)
            (store / "commitlog").symlink_to(tmp_path / "led")
            assert "commitlog" in self.refused(store, tmp_path / "led" / "x")

    def test_one_that_is_a_file_or_below_one_is_named(self, tmp_path):
        (tmp_path / "file").touch()

        for output in (tmp_path / "file", tmp_path / "file" / "x" / "y"):
            assert f"{tmp_path / 'file'} is a file" in self.refused(tmp_path / "store", output)

    def test_in_place_the_store_is_the_output(self, tmp_path):
        (tmp_path / "commitlog").mkdir()

        assert store_config(tmp_path, None, in_place=True).output == tmp_path

    @pytest.mark.parametrize(
        ("first", "second", "problem"),
        [
            ("b/out", "c", "inside the store .*/b"),
            ("c", "c/d", "inside it"),
            ("c/d", "c", "inside the output .*/c of store b"),
        ],
    )
    def test_one_store_keeps_off_the_other_and_its_output(self, tmp_path, first, second, problem):
        path = tmp_path / "reput.toml"
        path.write_text(
            f"[[store]]\npath='a'\noutput='{first}'\n[[store]]\npath='b'\noutput='{second}'\n"
        )
        with pytest.raises(UsageError, match=problem):
            read_config(path)

    @pytest.mark.parametrize("turn", [1, -1])
    def test_a_link_between_two_outputs_is_refused_in_either_order(self, tmp_path, turn):
        """
        b's queues would be written into a's output. Writing in place does not avoid that.
        """
        (tmp_path / "o1" / "x").mkdir(parents=True)
        (tmp_path / "o2").mkdir()
        (tmp_path / "o2" / "consumequeue").symlink_to(tmp_path / "o1" / "x")
        tables = [f"[[store]]\npath='{name}'\noutput='o{name}'\n" for name in "12"]
        (tmp_path / "reput.toml").write_text("".join(tables[::turn]))
        with pytest.raises(UsageError, match=r"inside the output .*/o1 of store 1 by") as raised:
            read_config(tmp_path / "reput.toml")

        assert "in_place" not in str(raised.value)

    @pytest.mark.parametrize(
        "place", ["x", "consumequeue", "consumequeue/TopicTest", "commitlog/x"]
    )
    def test_a_store_that_the_command_does_not_name_is_none_to_write_into(self, tmp_path, place):
        """
        Another broker's: its directories say that it is one. A commitlog of its own beside the
        output, on a disk that both are on, does not.
        """
        other = tmp_path / "other"
        for name in ("commitlog", "config"):
            (other / name).mkdir(parents=True)
        (tmp_path / "store").mkdir()
        (tmp_path / "commitlog").mkdir()

        said = self.refused(tmp_path / "store", other / place)
        assert "a broker's store: it holds commitlog/ and config" in said
        assert store_config(tmp_path / "store", tmp_path / "out").output == tmp_path / "out"
        assert store_config(other, None, in_place=True).output == other

    @pytest.mark.parametrize("place", ["x", "consumequeue/x", "x/y/z", ".reput/x"])
    def test_none_is_in_another_one_of_whatever_job(self, tmp_path, place):
        """
        A repair of the outer one would take the inner one's files for queues that nobody knows.
        """
        (tmp_path / "store").mkdir()
        (tmp_path / "outer" / ".reput").mkdir(parents=True)
        (tmp_path / "link").symlink_to(tmp_path / "outer")

        for root in ("outer", "link"):
            said = self.refused(tmp_path / "store", tmp_path / root / place)
            assert f"the output {tmp_path / root / place} is inside " in said
            assert f"{tmp_path / 'outer'}" in said
            assert "another output of reput" in said
        assert store_config(tmp_path / "store", tmp_path / "outer").output == tmp_path / "outer"

    def test_none_leads_into_another_one_by_a_link(self, tmp_path):
        for name in ("store", "out", "outer/.reput", "outer/x"):
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "out" / "consumequeue").symlink_to(tmp_path / "outer" / "x")

        said = self.refused(tmp_path / "store", tmp_path / "out")
        assert f"is inside {tmp_path / 'outer'} by {tmp_path / 'out' / 'consumequeue'}" in said

    def test_none_has_another_one_in_it(self, tmp_path):
        for name in ("store", "outs/a/.reput"):
            (tmp_path / name).mkdir(parents=True)

        said = self.refused(tmp_path / "store", tmp_path / "outs")
        assert f"the output {tmp_path / 'outs'} has {tmp_path / 'outs' / 'a'} inside it" in said
        assert store_config(tmp_path / "store", tmp_path / "outs" / "b").output.name == "b"

    @pytest.mark.parametrize("inner", ["consumequeue/x", "consumequeue/t/0/x", "a/b/c"])
    def test_what_is_deep_in_one_is_neither_extended_over_nor_repaired_away(
        self, copied, tmp_path, monkeypatch, capsys, inner
    ):
        """
        An output that was moved into another one stays as it is, and both are named.
        """
        _, live, _, conf = copied
        for name in ("outer", "other"):
            rebuild(live, tmp_path / name, broker_version="5.5", broker_conf=read_broker_conf(conf))
        place = tmp_path / "outer" / inner
        place.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "other").rename(place)
        before = files_of(tmp_path / "outer")
        words = ["--store", live, "--output", tmp_path / "outer", "--broker-conf", conf]

        code, _, error = run(monkeypatch, capsys, "rebuild", "--repair", *words)

        assert code == 2
        assert f"the output {tmp_path / 'outer'} has {place} inside it" in error
        if inner.startswith("consumequeue"):
            config = store_config(live, tmp_path / "outer", broker_conf=conf)
            with pytest.raises(StoreError, match="another output of reput is inside") as raised:
                StoreDispatcher(config)
            assert str(place) in str(raised.value)
        assert files_of(tmp_path / "outer") == before

    @pytest.mark.parametrize(
        ("mounted", "output"),
        [
            ("store", "mount"),
            ("store", "mount/x"),
            ("store/consumequeue", "mount"),
            ("store/consumequeue", "out"),
            (".", "mount/store/x"),
        ],
    )
    def test_a_mount_of_the_store_is_the_store(self, tmp_path, mounted, output):
        """
        No link tells that a bind mount leads there; device and inode do.
        """
        for name in ("store/commitlog", "store/consumequeue", "mount", "out/consumequeue"):
            (tmp_path / name).mkdir(parents=True)
        target = "out/consumequeue" if output == "out" else "mount"
        program = (
            "import sys; from pathlib import Path; from reput.streaming.settings.config import store_config\n"
            "store_config(Path(sys.argv[1]), Path(sys.argv[2]))"
        )
        script = 'mount --bind "$0" "$1" || exit 77; exec "${@:2}"'
        done = subprocess.run(
            ["unshare", "-rm", "bash", "-c", script, tmp_path / mounted, tmp_path / target,
             sys.executable, "-c", program, tmp_path / "store", tmp_path / output],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode == 77 or "unshare:" in done.stderr:
            pytest.skip("no mounts can be made here")

        assert done.returncode == 1
        error = recovered(done.stderr)
        assert isinstance(error, UsageError)
        said = str(error)
        assert said.startswith("the output ")
        assert "mount" in said.replace(str(tmp_path / "mount"), "")

    def test_an_output_is_not_in_a_store_that_is_written_in_place(self, tmp_path):
        path = tmp_path / "reput.toml"
        path.write_text("[[store]]\npath='a'\nin_place=true\n[[store]]\npath='b'\noutput='a/out'\n")
        with pytest.raises(UsageError, match="inside"):
            read_config(path)

    def test_a_copy_is_not_made_in_a_store(self, copied, monkeypatch, capsys):
        _, live, _, _ = copied

        code, _, error = run(
            monkeypatch, capsys, "export", "--store", live, "--to", live / "consumequeue" / "x"
        )

        assert code == 2
        assert "is inside" in error


@pytest.mark.parametrize("where", ["settings", "option"])
@pytest.mark.parametrize("target", ["live", "live/commitlog", "live/commitlog/export"])
def test_an_export_never_replaces_the_log_that_it_reads(
    tmp_path, monkeypatch, capsys, copied, where, target
):
    """
    `--to` above or in a commitlog that stands elsewhere is refused, with `--overwrite` as well.
    """
    _, live, backup, conf = copied
    shutil.rmtree(backup / "commitlog")
    words = ["--broker-conf", conf]
    if where == "option":
        plain = tmp_path / "plain.conf"
        plain.write_text("".join(f"{name}={value}\n" for name, value in SMALL.items()))
        words = ["--broker-conf", plain, "--commitlog", live / "commitlog"]
    before = sorted(live.rglob("*"))

    code, _, said = run(
        *(monkeypatch, capsys, "export", "--store", backup, "--to", tmp_path / target),
        *("--overwrite", *words),
    )

    assert code == 2
    assert "is to be read" in said or "is only read" in said
    assert sorted(live.rglob("*")) == before


class TestASparkCheckpoint:
    @pytest.mark.parametrize(
        "place", ["live", "live/consumequeue", "live/commitlog/x", "out/consumequeue", "out/spark"]
    )
    def test_inside_a_store_or_an_output_it_is_refused(
        self, copied, tmp_path, monkeypatch, capsys, place
    ):
        """
        A broker would take spark-… in consumequeue/ for a topic.
        """
        _, live, _, conf = copied
        words = ["--store", live, "--broker-conf", conf, "--output", tmp_path / "out"]
        words += ["--spark-checkpoint", tmp_path / place]

        code, _, error = run(monkeypatch, capsys, "rebuild", *words)

        assert code == 2
        assert f"--spark-checkpoint {tmp_path / place} is inside" in error
        assert not (tmp_path / "out").exists()
        assert {path.name for path in live.iterdir()} == {"commitlog"}

    def test_elsewhere_and_in_our_own_directory_it_is_taken(self, copied, tmp_path):
        _, live, _, _ = copied
        config = store_config(live, tmp_path / "out")
        for place in (None, tmp_path / "spark", tmp_path / "out" / ".reput" / "spark"):
            refuse_checkpoint(place, [config])

    def test_jobs_with_stores_of_one_name_have_directories_of_their_own(self, copied, tmp_path):
        """
        Each start empties its own: the directory of a job that runs must not be the same.
        """
        _, live, backup, _ = copied
        options = JobOptions(available_now=True, checkpoint=tmp_path / "spark")
        jobs = [
            Job([store_config(store, tmp_path / out, name="store", broker_conf=SMALL)], options)
            for store, out in ((live, "a"), (backup, "b"))
        ]

        first, second = (fresh_checkpoint(job.configs, job.options) for job in jobs)
        again = fresh_checkpoint(jobs[0].configs, jobs[0].options)
        for job in jobs:
            job.abandon()

        assert first != second
        assert first == again

    def test_a_job_of_several_stores_puts_it_into_no_output(self, copied, tmp_path):
        """
        A full disk of one store would stop the others with it.
        """
        _, live, backup, _ = copied
        configs = [
            store_config(store, tmp_path / out, name=out, broker_conf=SMALL)
            for store, out in ((live, "a"), (backup, "b"))
        ]
        place = fresh_checkpoint(configs, JobOptions(available_now=False))

        assert place.is_dir()
        assert not list(place.iterdir())
        assert not any(place.is_relative_to(tmp_path / out) for out in ("a", "b"))


@pytest.mark.parametrize("mark", [".reput", "commitlog", "consumequeue"])
@pytest.mark.parametrize("below", ["export", "config/a/b"])
def test_no_export_goes_into_a_store_or_an_output_of_whatever_command(tmp_path, mark, below):
    """
    One that this command does not read is one as well.
    """
    (tmp_path / "other" / mark).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "other")
    for root in ("other", "link"):
        with pytest.raises(UsageError, match=r"which is (an output of reput|a broker's store)"):
            export_target.check(tmp_path / root / below, overwrite=True)
    export_target.check(tmp_path / "beside", overwrite=True)


@pytest.mark.parametrize("in_place", [False, True], ids=["output", "in-place"])
def test_a_refused_repair_leaves_nothing_in_a_store(
    copied, tmp_path, monkeypatch, capsys, in_place
):
    _, live, backup, conf = copied
    (backup / "consumequeue" / "t" / "0").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    words = ["--store", backup, "--in-place", "--commitlog", backup / "commitlog"]
    if not in_place:
        words = ["--store", live, "--output", backup]

    code, _, error = run(monkeypatch, capsys, "rebuild", "--repair", "--broker-conf", conf, *words)

    assert code == 3
    assert ("the broker's own queues" if in_place else "the output is a broker's store") in error
    found = sorted(tmp_path.rglob("*"))
    # The lock is the broker's own, and any start of it makes it.
    assert [path for path in found if path != backup / "lock"] == before


@pytest.fixture
def other_disk(tmp_path):
    """A directory on another file system than the test's."""
    for place in ("/dev/shm", "/tmp", Path.home()):
        if os.access(place, os.W_OK) and Path(place).stat().st_dev != tmp_path.stat().st_dev:
            with tempfile.TemporaryDirectory(dir=place) as directory:
                yield Path(directory)
            return
    pytest.skip("needs a second file system that can be written")


@pytest.mark.parametrize("kind", [".reput", "consumequeue", "index"])
@pytest.mark.parametrize("command", ["rebuild", "rebuild --repair"])
def test_an_output_on_two_disks_is_refused_before_it_is_changed(
    copied, tmp_path, monkeypatch, capsys, other_disk, kind, command
):
    """
    Dispatch would end at the first new file, and a repair would lock the output for good.
    """
    _, live, _, conf = copied
    output = tmp_path / "out"
    rebuild(live, output, broker_version="5.5", broker_conf=read_broker_conf(conf))
    (output / kind).rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", other_disk / kind)
    (output / kind).symlink_to(other_disk / kind)
    before = files_of(other_disk)
    words = ["--store", live, "--output", output, "--broker-conf", conf]

    if command == "rebuild":
        config = store_config(live, output, broker_conf=conf)
        with pytest.raises(StoreError, match="on another file system"):
            StoreDispatcher(config)
    else:
        code, _, error = run(monkeypatch, capsys, *command.split(), *words)
        assert code == 3
        assert f"{output / kind}" in error
        assert "on another file system" in error
    assert files_of(other_disk) == before


class TestAVolumeThatIsNotMounted:
    """readOnlyCommitLogStorePaths names a mount point that is there, and empty."""

    @pytest.fixture
    def config(self, copied, tmp_path):
        _, live, _, _ = copied
        own, volume = live / "commitlog", tmp_path / "volume"
        volume.mkdir()
        (own / names.offset_file(0)).rename(volume / names.offset_file(0))
        second = tmp_path / "second"
        second.mkdir()
        settings = {
            **SMALL,
            "storePathCommitLog": f"{own},{second}",
            "readOnlyCommitLogStorePaths": str(volume),
        }
        rebuild(live, tmp_path / "whole", broker_version="5.5", broker_conf=settings)
        return store_config(live, tmp_path / "out", broker_conf=settings)

    @pytest.mark.parametrize("output", ["whole", "out"])
    def test_verify_and_handover_say_it(self, config, tmp_path, output):
        """
        Also with an output that was begun without it, in which nothing is missing.
        """
        volume = tmp_path / "volume"
        config = replace(config, output=tmp_path / output)
        if output == "whole":
            assert examine(config).is_safe
            assert not [note for note in verify(config).notes if note.path == str(volume)]
        volume.rename(tmp_path / "away")
        volume.mkdir()
        if output == "out":
            rebuild(config.path, config.output, broker_version="5.5", broker_conf=config.properties)

        (note,) = [note for note in verify(config).notes if note.path == str(volume)]
        assert "is its volume mounted?" in note.detail
        found = examine(config)
        assert not found.is_safe
        assert [said for said in found.problems if "is its volume mounted?" in said]
