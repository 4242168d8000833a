"""Frames that real clients, tools, name servers and brokers sent (tests/remoting/frames)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from reput.remoting.wire.codes import LanguageCode, SerializeType
from reput.remoting.wire.command import Command

FRAMES = Path(__file__).parents[1] / "frames"
NAMES = ("clients-4.9.8", "clients-5.5.0", "tools-4.9.7", "tools-5.5.0", "go-2.1.2")


class Captured(NamedTuple):
    """A frame: its header as it was written, its body as far as it was kept."""

    header: dict
    body: bytes

    @property
    def command(self) -> Command:
        header = self.header
        return Command(
            header["code"],
            header["opaque"],
            header["flag"],
            LanguageCode[header["language"]],
            header["version"],
            header.get("remark"),
            header.get("extFields"),
            self.body,
            SerializeType.JSON,
        )

    def bytes_by(self, dumps=json.dumps) -> bytes:
        """Return the frame with a header that another encoder wrote."""
        header = dumps(self.header).encode()
        lengths = (4 + len(header) + len(self.body), len(header))
        return b"".join(each.to_bytes(4, "big") for each in lengths) + header + self.body


def captured(name: str) -> list[Captured]:
    found = []
    for line in (FRAMES / f"{name}.jsonl").read_text("utf-8").splitlines():
        frame = json.loads(line)
        text = frame["b"]
        kept = text.removeprefix("hex:")
        body = bytes.fromhex(kept[: len(kept) // 2 * 2]) if kept != text else text.encode()
        found.append(Captured(frame["h"], body))
    return found
