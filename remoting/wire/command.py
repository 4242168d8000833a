"""A request or an answer as a value: RocketMQ's `RemotingCommand`.

===== ==================================================================
flag  meaning
===== ==================================================================
bit 0 an answer; its opaque is that of the request
bit 1 oneway: the peer wants no answer, not even an error
===== ==================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.remoting.wire.codes import LanguageCode, SerializeType

if TYPE_CHECKING:
    from collections.abc import Mapping

RESPONSE = 1 << 0
ONEWAY = 1 << 1

Bytes = bytes | bytearray | memoryview


class Command(NamedTuple):
    """What a frame says.

    Attributes:
        code: a `RequestCode` or a `ResponseCode`, or a number that neither has.
        opaque: an answer is matched to its request by it.
        flag: `RESPONSE` and `ONEWAY`.
        language: None where a peer names one that is not known.
        version: the ordinal of the peer's release, 513 for 5.5.0; 0 where it does not say.
        remark: a text for people, None for none.
        fields: the header's fields beside these (`extFields`); None where a peer sent none at all.
        body: bytes after the header. A view of what arrived, where the frame came in one piece.
        codec: how the header is encoded. An answer has the codec of its request.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    language: LanguageCode | None = LanguageCode.PYTHON
    version: int = 0
    remark: str | None = None
    fields: Mapping[str, str] | None = None
    body: Bytes = b""
    codec: SerializeType = SerializeType.JSON

    @property
    def is_response(self) -> bool:
        """Tell an answer from a request."""
        return bool(self.flag & RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Tell whether the peer wants no answer."""
        return bool(self.flag & ONEWAY)

    def answer(
        self,
        code: int,
        version: int,
        remark: str | None = None,
        fields: Mapping[str, str] | None = None,
        body: Bytes = b"",
    ) -> Command:
        """Return the answer to this request, in its codec.

        Args:
            code: a `ResponseCode`.
            version: the ordinal of the release that answers. Java clients refuse SQL92 below 232.
            remark: why it failed, or what the broker says anyway.
            fields: the answer's own fields.
            body: bytes after the header.
        """
        of_ours = (self.opaque, RESPONSE, LanguageCode.PYTHON, version)
        return Command(code, *of_ours, remark, fields, body, self.codec)
