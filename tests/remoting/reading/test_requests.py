"""What is asked apart from pulls."""

from __future__ import annotations

import asyncio
from dataclasses import astuple

import pytest

from reput.remoting.reading.requests import handlers
from reput.remoting.reading.turns import Turns
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.command import Command
from tests.builders.served import NOW, dispatched, messages, served

QUEUE = {"topic": "t", "queueId": "0"}
TIMES = {"beginTimestamp": "0", "endTimestamp": str(2 * NOW)}


@pytest.mark.parametrize(
    ("code", "asked", "answered"),
    [
        (RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "k0", "maxNum": "9", **TIMES}, None),
        (RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0"}, None),
        (RequestCode.GET_EARLIEST_MSG_STORETIME, QUEUE, NOW + 1000),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**QUEUE, "timestamp": str(NOW)}, 1),
    ],
)
def test_a_file_that_went_since_the_last_look(tmp_path, code, asked, answered):
    """
    It is as if it had been looked at: the log begins with the next file.
    """
    with dispatched(messages(9, size=3000), tmp_path) as store:
        at = served(store)
        store.log.close()
        min((tmp_path / "store" / "commitlog").iterdir()).unlink()

        async def run():
            turns = Turns(asyncio.get_running_loop())
            said = handlers(at, turns)[code](Command(code, 1, fields=asked), None)
            found = await said if isinstance(said, asyncio.Future) else said
            turns.close()
            return found

        found = asyncio.run(run())

    assert (found.code == ResponseCode.SUCCESS) == (answered is not None)
    assert answered is None or astuple(found.header) == (answered,)
