"""Pulls of real clients and tools (tests/remoting/frames), with the answers of real brokers.

The stores that were asked are not kept, and of each answer only the first bytes of its body. A
queue of as many messages stands for theirs, so all is compared but the bodies.
"""

from __future__ import annotations

import json

import pytest

from reput.remoting.reading.pull import pull
from reput.remoting.reading.served import Online, Subscription
from reput.remoting.wire import fields
from reput.remoting.wire.pull_headers import PullMessageRequestHeader
from tests.builders.served import FixedGroups, dispatched, messages, served
from tests.remoting.wire.captured import FRAMES, NAMES

PULLS = {11, 361}
QUEUE_FILE = {"mappedFileSizeConsumeQueue": str(100 * 20)}


def exchanges():
    """Yield the pulls whose answers were captured too."""
    for name in NAMES:
        asked = {}
        for line in map(json.loads, (FRAMES / f"{name}.jsonl").read_text("utf-8").splitlines()):
            said, key = line["h"], (line["sp"], line["dp"], line["h"]["opaque"])
            if said["code"] in PULLS and not said.get("flag", 0) & 1:
                asked[key] = said
            answered = asked.get((line["dp"], line["sp"], said["opaque"]))
            if said.get("flag", 0) & 1 and answered is not None:
                yield pytest.param(name, answered, said, id=f"{name}-{said['opaque']}")


EXCHANGES = list(exchanges())


@pytest.mark.parametrize(("name", "asked", "said"), EXCHANGES)
def test_the_answer_is_the_same_field_by_field(tmp_path, name, asked, said):
    header = fields.read(PullMessageRequestHeader, asked["extFields"])
    theirs = said["extFields"]
    count, queue = int(theirs["maxOffset"]), header.queue_id
    log = messages(count * (queue + 1), topic=header.topic, queues=queue + 1)
    version = "4.9" if "4.9" in name else "5.5"
    wanted = Subscription(header.subscription or "*", version=header.sub_version)
    groups = FixedGroups(
        members={
            header.consumer_group: Online(
                is_broadcasting=False, subscriptions={header.topic: wanted}
            )
        }
    )
    with dispatched(log, tmp_path, version, **QUEUE_FILE) as store:
        answer = pull(header, served(store, groups=groups), is_lite=asked["code"] == 361)

    assert (answer.code, answer.remark) == (said["code"], said["remark"])
    assert fields.write(answer.header) == theirs
    assert answer.messages == int(theirs["nextBeginOffset"]) - header.queue_offset


def test_there_are_some():
    assert len(EXCHANGES) >= 4
