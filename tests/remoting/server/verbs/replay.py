"""Asks a name server and a broker what clients and tools were captured asking, and keeps the answers.

Run as a program, where those servers are to be seen: `python -m tests.remoting.server.verbs.replay
WRITES OUTPUT`. With `WRITES` of `yes` what would write is sent as well.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any, NamedTuple

from reput.remoting.wire import frames
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.command import Command
from tests.remoting.server.verbs.processes import BROKER_PORT, LOOPBACK, NAMES_PORT
from tests.remoting.server.verbs.requests import ASKED
from tests.remoting.wire.captured import FRAMES, NAMES

_SECONDS = 20.0
_ONEWAY, _SUSPEND = 2, 2
PORTS = {NAMES_PORT: "name server", BROKER_PORT: "broker"}
WRITES = {
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.END_TRANSACTION,
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER,
    RequestCode.REGISTER_BROKER,
    RequestCode.UNREGISTER_BROKER,
}
"""What of the captured requests changes a store, or the brokers of a name server."""


class Request(NamedTuple):
    """A request: where it was captured, and to which port it went."""

    source: str
    port: int
    code: int
    fields: dict[str, str] | None
    body: bytes
    flag: int = 0
    version: int = 409

    @property
    def name(self) -> str:
        fields = " ".join(f"{k}={v}" for k, v in (self.fields or {}).items() if len(v) < 40)
        return f"{self.source}: {RequestCode(self.code).name} {fields}"


def requests(version: str) -> list[Request]:
    """Return what is asked: once each, however often it was captured."""
    found: dict[str, Request] = {}
    for name in NAMES:
        for line in (FRAMES / f"{name}.jsonl").read_text("utf-8").splitlines():
            frame = json.loads(line)
            header, text = frame["h"], frame["b"]
            if header.get("flag", 0) & 1 or frame["dp"] not in PORTS:
                continue
            body = bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()
            said = (
                header["code"],
                header.get("extFields"),
                body,
                header["flag"],
                header["version"],
            )
            made = Request(name, frame["dp"], *said)
            found.setdefault(made.name, made)
    for line in (FRAMES / "names.jsonl").read_text("utf-8").splitlines():
        header = json.loads(line)["request"]
        made = Request("names", NAMES_PORT, header["code"], header.get("extFields"), b"")
        found.setdefault(made.name, made)
    for port, code, fields, body in ASKED:
        made = Request("asked", port, code, fields, body, version=409 if version[0] == "4" else 513)
        found.setdefault(made.name, made)
    return list(found.values())


def ask(version: str, *, writes: bool) -> list[dict[str, Any]]:
    """Return each request with its answer, None where there is none."""
    connections: dict[tuple[str, int], _Connection] = {}
    said = []
    for request in requests(version):
        if request.code in WRITES and not writes:
            continue
        key = (request.source, request.port)
        if key not in connections:
            connections[key] = _Connection(request.port)
        answer = connections[key].ask(request)
        said.append({"name": request.name, "writes": request.code in WRITES, "answer": answer})
    return said


class _Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((LOOPBACK, port), _SECONDS)
        self._decoder = frames.FrameDecoder()
        self._opaque = 0

    def ask(self, request: Request) -> dict[str, Any] | None:
        self._opaque += 1
        fields = dict(request.fields) if request.fields is not None else None
        if fields and request.code in {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE}:
            # An answer that waits for a message tells no more.
            fields["sysFlag"] = str(int(fields["sysFlag"]) & ~_SUSPEND)
        command = Command(
            request.code,
            self._opaque,
            request.flag,
            version=request.version,
            fields=fields,
            body=request.body,
        )
        self._socket.sendall(frames.encode(command) + request.body)
        return None if request.flag & _ONEWAY else self._answer()

    def _answer(self) -> dict[str, Any]:
        while True:
            data = self._socket.recv(1 << 20)
            if not data:
                return {"closed": True}
            for each in self._decoder.feed(data):
                if each.is_response and each.opaque == self._opaque:
                    return {
                        "code": each.code,
                        "remark": each.remark,
                        "fields": each.fields,
                        "body": bytes(each.body).decode("latin-1"),
                    }


if __name__ == "__main__":
    version, writes, output = sys.argv[1:]
    Path(output).write_text(json.dumps(ask(version, writes=writes == "yes")))
