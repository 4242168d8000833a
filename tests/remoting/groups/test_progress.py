"""What clients get that ask where they resume, and that say it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reput.remoting.groups.offsets import Offsets
from reput.remoting.groups.progress import Progress
from reput.remoting.names.known import Topic
from reput.remoting.wire import fields
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.command import Command
from reput.remoting.wire.errors import FieldError
from tests.builders.groups import Client, consumers
from tests.builders.served import dispatched, messages, served
from tests.remoting.wire.captured import captured


@pytest.fixture(params=["4.9", "5.5"])
def version(request):
    return request.param


@pytest.fixture
def store(tmp_path, version):
    with dispatched(messages(6), tmp_path, version) as found:
        yield found


class Asked:
    def __init__(self, store, version, said=None, memory=None, **options):
        self.offsets = Offsets(said)
        self.groups = consumers(version)
        self.served = replace(served(store, groups=self.groups), memory=memory)
        self.progress = Progress(self.offsets, self.groups.configs, self.served, **options)

    def ask(self, code, **said):
        given = {"consumerGroup": "g", "topic": "t", "queueId": "0"} | said
        return self.progress.handlers()[code](Command(code, fields=given), Client())

    def query(self, **said):
        return self.ask(RequestCode.QUERY_CONSUMER_OFFSET, **said)

    def update(self, **said):
        said = {"commitOffset": "3"} | said
        return self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **said)


@pytest.fixture
def asked(store, version):
    return Asked(store, version)


def test_an_offset_that_is_known(asked):
    asked.offsets.set("g", "t", 0, 4)
    answer = asked.query()

    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    assert fields.write(answer.header) == {"offset": "4"}


@pytest.mark.parametrize("known", [None, -1])
def test_a_new_group_decides_by_itself(asked, known):
    if known is not None:
        asked.offsets.set("g", "t", 0, known)
    answer = asked.query()

    assert (answer.code, fields.write(answer.header)) == (ResponseCode.QUERY_NOT_FOUND, {})
    assert answer.remark == "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


class TestReadsAll:
    """The broker's rule: a new group begins at 0 while the first message is in memory."""

    @pytest.mark.parametrize(("memory", "code"), [(None, 0), (1 << 40, 0), (10, 22)])
    def test_where_the_first_message_is(self, store, version, memory, code):
        asked = Asked(store, version, memory=memory, new_groups_read_all=True)
        answer = asked.query()

        assert answer.code == code
        assert fields.write(answer.header) == ({} if code else {"offset": "0"})

    def test_not_where_the_client_does_not_want_it(self, store, version):
        asked = Asked(store, version, new_groups_read_all=True)
        answer = asked.query(setZeroIfNotFound="false")

        assert answer.code == ResponseCode.QUERY_NOT_FOUND
        assert answer.remark == "Not found, do not set to zero, maybe this group boot first"

    def test_without_a_queue_only_as_4_9_does(self, store, version):
        asked = Asked(store, version, new_groups_read_all=True)
        expected = ResponseCode.SUCCESS if version == "4.9" else ResponseCode.QUERY_NOT_FOUND
        assert asked.query(queueId="7").code == expected


class TestUpdate:
    def test_it_is_taken_down(self, asked):
        asked.groups.config("g")
        answer = asked.update(commitOffset="5")

        assert (answer.code, fields.write(answer.header)) == (ResponseCode.SUCCESS, {})
        assert asked.offsets.find("g", "t", 0) == 5

    @pytest.mark.parametrize(
        ("said", "remark", "code"),
        [
            ({"consumerGroup": "x"}, "Group x not exist!", 26),
            ({"topic": "x"}, "Topic x not exist!", 17),
        ],
    )
    def test_what_5_x_does_not_know(self, asked, version, said, remark, code):
        asked.groups.config("g")
        answer = asked.update(**said)

        assert (answer.code, answer.remark) == ((code, remark) if version == "5.5" else (0, None))

    def test_a_group_with_offsets_is_known_after_a_restart(self, store, version):
        asked = Asked(store, version, {"offsetTable": {"t@g": {"0": 1}}})
        assert asked.update().code == ResponseCode.SUCCESS

    def test_a_field_that_is_missing(self, asked):
        with pytest.raises(FieldError, match="commitOffset"):
            asked.update(commitOffset="")

    @pytest.mark.parametrize("name", ["clients-4.9.8", "clients-5.5.0", "go-2.1.2"])
    def test_real_clients(self, asked, version, name):
        known = asked.groups.configs
        for group in ("CG1", "CGL", "GCG"):
            known.find(group)
        if version == "5.5":
            topics = {topic: Topic(topic, 4, 4) for topic in ("T1", "TG")}
            asked.progress = Progress(asked.offsets, known, replace(asked.served, topics=topics))
        for frame in captured(name):
            if frame.header["code"] == RequestCode.UPDATE_CONSUMER_OFFSET:
                said = frame.command
                assert asked.progress.update(said, Client()).code == ResponseCode.SUCCESS
        group, topic = (said.fields[each] for each in ("consumerGroup", "topic"))
        found = asked.offsets.of(group, topic)

        assert found == {int(said.fields["queueId"]): int(said.fields["commitOffset"])}
