"""The progress record and the broker's marks: what is saved is loaded, what is damaged is noticed."""

from __future__ import annotations

import dataclasses
import json
import zlib

import pytest

from reput.checkpoints import marks, progress
from reput.checkpoints.disk import marking, recording
from reput.checkpoints.progress import FILE_NAME, STATE_DIRECTORY, Progress
from reput.formats.errors import FormatError
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.stores.following.known import FileHeads
from reput.stores.log.listing import Stamp
from reput.stores.log.trail import Fingerprint, Point

SAVED = Progress(
    end=4096,
    generation=7,
    clean=False,
    messages=12,
    settings={"version": "5.5", "delays": [1000, 5000], "writes_index": True},
    files=(
        FileHeads(0, 17, (1 << 64) - 1, Stamp(7, 1_700_000_000_123_456_789, 5)),
        FileHeads(2048, 18, 19),
    ),
    trail=(Point(Fingerprint(4000, 96, (1 << 64) - 1), 4096, 19, index_header=(6, 5, 4, 3, 2, 1)),),
    queues={"consumequeue/t/0": 240, "consumequeue_ext/t/0": 1 << 40},
    index_name="20240101000000000",
    index_header=(1, 2, 3, 4, 5, 6),
    checkpoint=(6, 5, 4, 3, 2, 1),
    firsts={"consumequeue/t/0": 80},
    lasts={"consumequeue/t/0": 4096},
    tails={"consumequeue/t/0": 7, "consumequeue_ext/t/0": (1 << 32) - 1},
    index_before=(("20230101000000000", (6, 5, 4, 3, 2, 1)),),
    logics_timestamp=1 << 62,
    logics_offset=4000,
    skipped=((100, 200), (300, 400)),
    lost=((500, 600),),
)


@pytest.fixture
def root(tmp_path):
    (tmp_path / STATE_DIRECTORY).mkdir()
    return tmp_path


def path_in(root):
    return root / STATE_DIRECTORY / FILE_NAME


def loaded(root):
    """Return the record, or "damaged" if that is what is said, with the file and a way out."""
    try:
        return progress.load(root)
    except FormatError as error:
        return "damaged" if str(path_in(root)) in str(error) and "rebuild" in str(error) else error


class TestProgress:
    @pytest.mark.parametrize(
        "saved", [SAVED, dataclasses.replace(SAVED, files=(), trail=(), queues={})]
    )
    def test_what_is_saved_is_loaded(self, root, saved):
        recording.save(root, saved)

        assert progress.load(root) == saved

    def test_an_output_without_progress_has_none(self, tmp_path):
        assert progress.load(tmp_path) is None

    def test_it_is_replaced_as_a_whole(self, root):
        """
        The new one gets its content under another name; nothing is left of that.
        """
        recording.save(root, SAVED)
        before = path_in(root).stat().st_ino
        recording.save(root, dataclasses.replace(SAVED, end=5000))

        assert path_in(root).stat().st_ino != before
        assert [path.name for path in (root / STATE_DIRECTORY).iterdir()] == [FILE_NAME]
        assert progress.load(root).end == 5000

    def test_a_write_that_was_cut_off_leaves_the_one_before(self, root):
        recording.save(root, SAVED)
        (root / STATE_DIRECTORY / f"{FILE_NAME}.new").write_text('{"end": 9')

        assert progress.load(root) == SAVED

    @pytest.mark.parametrize("flip", [0x01, 0x02, 0x10, 0x80])
    def test_a_damaged_byte_is_noticed_wherever_it_is(self, root, flip):
        """
        Or it changes nothing: a space in the layout of the text.
        """
        recording.save(root, SAVED)
        raw = path_in(root).read_bytes()
        for at in range(len(raw)):
            path_in(root).write_bytes(raw[:at] + bytes([raw[at] ^ flip]) + raw[at + 1 :])
            assert loaded(root) in (SAVED, "damaged")

    def test_a_record_cut_anywhere_is_noticed(self, root):
        recording.save(root, SAVED)
        raw = path_in(root).read_bytes()
        for size in range(len(raw) - 1):
            path_in(root).write_bytes(raw[:size])
            with pytest.raises(FormatError):
                progress.load(root)

    @pytest.mark.parametrize("text", ["", "[]", "1", "null", '"x"', "{}", '{"crc": 0}'])
    def test_other_json_is_no_record(self, root, text):
        path_in(root).write_text(text)

        with pytest.raises(FormatError):
            progress.load(root)

    def test_a_later_format_is_refused(self, root):
        recording.save(root, dataclasses.replace(SAVED, format=4))

        with pytest.raises(FormatError, match="format 4, this is 3"):
            progress.load(root)

    @pytest.mark.parametrize(
        "change",
        [
            lambda values: values.pop("files"),
            lambda values: values.pop("end"),
            lambda values: values.update(files=[[1, 2]]),
            lambda values: values.update(files=7),
            lambda values: values.update(trail=[[]]),
            lambda values: values.update(trail=[{"record": 5}]),
            lambda values: values.update(skipped=[[1, 2, 3]]),
            lambda values: values.update(index_before=[1]),
            lambda values: values.update(colour="red"),
        ],
    )
    def test_fields_of_another_build_are_an_error_with_a_remedy(self, root, change):
        """
        Right by format and CRC, and still not what this build has written.
        """
        recording.save(root, SAVED)
        values = json.loads("{" + path_in(root).read_text().partition("\n")[2])
        change(values)
        rest = json.dumps(values)[1:]
        path_in(root).write_text(f'{{"crc": {zlib.crc32(rest.encode())},\n{rest}')

        assert loaded(root) == "damaged"

    def test_it_is_readable_with_any_editor(self, root):
        recording.save(root, SAVED)

        assert json.loads(path_in(root).read_text())["end"] == 4096


class TestMarks:
    VALUES = StoreCheckpoint(1, 2, 3, 4, 5, 6)

    @pytest.mark.parametrize("fields", [3, 5, 6])
    def test_a_checkpoint_has_the_longs_of_its_version(self, root, fields):
        marking.write_checkpoint(root, root / STATE_DIRECTORY, self.VALUES, fields)
        raw = (root / "checkpoint").read_bytes()

        assert raw == b"".join(i.to_bytes(8, "big") for i in range(1, fields + 1)).ljust(
            4096, b"\0"
        )
        assert marks.read_checkpoint(root)[:fields] == self.VALUES[:fields]
        assert list((root / STATE_DIRECTORY).iterdir()) == []

    def test_a_store_may_have_none(self, root):
        assert marks.read_checkpoint(root) is None

    def test_one_that_is_too_short_is_named(self, root):
        (root / "checkpoint").write_bytes(bytes(40))

        with pytest.raises(FormatError, match="checkpoint at byte 40"):
            marks.read_checkpoint(root)

    def test_the_abort_marker_comes_and_goes(self, root):
        assert not marks.has_abort(root)
        marking.set_abort(root, root)
        assert marks.has_abort(root)
        assert (root / "abort").read_text().startswith("reput, process ")
        marking.clear_abort(root)
        marking.clear_abort(root)
        assert not (root / "abort").exists()
