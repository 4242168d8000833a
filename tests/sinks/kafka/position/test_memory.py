"""What an output remembers of Kafka is read as it was written, and damage is found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from reput.formats.errors import KafkaError
from reput.sinks.kafka.extent import Extent
from reput.sinks.kafka.position.memory import Memory, remember, remembered
from reput.sinks.kafka.position.start import Start, points_before
from reput.stores.log.trail import Fingerprint, Point
from tests.builders.kafka_sinks import (
    log_of,
    sink,
)

if TYPE_CHECKING:
    from pathlib import Path


class TestMemory:
    def test_a_place_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        made, log = log_of(tmp_path)
        start = Start("reput-x", made.end, 7, points_before(log, made.end))
        path = tmp_path / "kafka.json"
        remember(path, Memory("c", "reput-x", latest=start))

        memory = remembered(path)
        assert memory is not None
        assert memory.latest == start

    def test_one_of_an_earlier_version_is_read_without_records(self, tmp_path: Path) -> None:
        path = tmp_path / "kafka.json"
        path.write_text('{"cluster": "", "id": "", "latest": ["reput-x", 1000, 7]}')

        memory = remembered(path)
        assert memory is not None
        assert memory.latest == Start("reput-x", 1000, 7)

    def test_each_byte_that_is_changed_is_found(self, tmp_path: Path) -> None:
        """
        A real file is refused, or says the same, as where white space is another one.
        """
        made, log = log_of(tmp_path)
        sending = sink(tmp_path)
        sending.decide_latest(Extent(made.end, None))
        path = tmp_path / "out" / ".reput" / "kafka.json"
        memory = remembered(path)
        assert memory is not None
        assert memory.latest is not None
        sent = Start("reput-x", made.end, 7, points_before(log, made.end))
        memory = memory._replace(cluster="c", transactional_id="reput-x", end=5, sent=sent)
        remember(path, memory)
        raw = path.read_bytes()
        taken = 0
        for at in range(len(raw)):
            others = {raw[at] ^ (1 << bit) for bit in range(8)} | {*b'\0\n \t",:{}0123456789'}
            for byte in others - {raw[at]}:
                path.write_bytes(raw[:at] + bytes([byte]) + raw[at + 1 :])
                try:
                    found = remembered(path)
                except KafkaError as error:
                    assert f"{path}: it is damaged" in str(error)  # noqa: PT017 - some are taken
                else:
                    assert found == memory, (at, byte)
                    taken += 1
        # The blank after the name of the CRC.
        assert taken <= len(b"\n\t")

    def test_one_that_is_cut_short_is_found(self, tmp_path: Path) -> None:
        """
        Wherever it ends: none of them passes for one of an earlier version.
        """
        path = tmp_path / "kafka.json"
        remember(path, Memory("c", "reput-x", 5, 6, "127.0.0.1:9092"))
        raw = path.read_bytes()
        for size in range(len(raw)):
            path.write_bytes(raw[:size])
            with pytest.raises(KafkaError, match="it is damaged"):
                remembered(path)
        path.write_bytes(raw.replace(b"\n", b""))
        with pytest.raises(KafkaError, match="not in a line of its own"):
            remembered(path)

    @pytest.mark.parametrize("number", ['"end": 1e999', '"end": ' + "[" * 100_000])
    def test_numbers_that_are_none_are_damage(self, tmp_path: Path, number: str) -> None:
        path = tmp_path / "kafka.json"
        path.write_text(f'{{"cluster": "c", "id": "reput-x", {number}}}')
        with pytest.raises(KafkaError, match="it is damaged"):
            remembered(path)

    @pytest.mark.parametrize(
        ("text", "memory"),
        [
            ('{"cluster": "c", "id": "reput-x"}', Memory("c", "reput-x")),
            (
                (
                    '{"cluster": "c", "id": "reput-x", "end": 5, "storeTimestamp": 6, "bootstrap": "k",'
                    ' "latest": null, "sent": ["reput-x", 1000, 7, [[1, 2, 3, 4]]]}'
                ),
                Memory(
                    "c",
                    "reput-x",
                    5,
                    6,
                    "k",
                    sent=Start("reput-x", 1000, 7, (Point(Fingerprint(1, 2, 3), 4),)),
                ),
            ),
        ],
    )
    def test_one_of_an_earlier_version_has_no_crc(
        self, tmp_path: Path, text: str, memory: Memory
    ) -> None:
        """
        It is read, and gets one when it is written next; what is written then, that version reads.
        """
        path = tmp_path / "kafka.json"
        path.write_text(text)
        found = remembered(path)
        assert found == memory

        remember(path, memory)
        assert path.read_bytes().startswith(b'{"crc": ')
        assert remembered(path) == memory
        values = json.loads(path.read_bytes())
        assert (values["cluster"], values["id"]) == ("c", "reput-x")
