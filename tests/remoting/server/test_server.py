"""A server over real sockets: what comes, what goes out, and who is closed."""

from __future__ import annotations

import errno
import json
import struct
from dataclasses import replace
from functools import partial

import pytest

from reput.formats.rocketmq.encode import Message
from reput.remoting.counting.counters import Uncounted
from reput.remoting.server import connection, traffic
from reput.remoting.wire import frames
from reput.remoting.wire.codes import RequestCode, ResponseCode, SerializeType
from reput.remoting.wire.command import ONEWAY, Command
from reput.remoting.wire.fields import write
from tests.builders import groups
from tests.builders.served import NOW, dispatched, messages, request
from tests.builders.servers import Client, serving
from tests.builders.stores import Log
from tests.builders.waiting import wait_until

COUNT = 64


class Connections(Uncounted):
    """Counts those that are open, and of these the ones that are not read."""

    open = not_reading = 0

    def connected(self, change):
        self.open += change

    def slow(self, count):
        self.not_reading = count


@pytest.fixture
def store(tmp_path):
    return dispatched(messages(COUNT), tmp_path)


@pytest.fixture
def running(store):
    with serving(store) as server:
        yield server


@pytest.fixture
def client(running):
    made = Client(running.broker)
    yield made
    made.close()


def pull(client: Client, offset: int, **said) -> Command:
    return client.ask(RequestCode.PULL_MESSAGE, **write(request(offset, **said)))


class TestRequests:
    def test_a_pull_is_answered_with_records_as_they_lie_in_the_log(self, client, store):
        answer = pull(client, 0, limit=3)
        records = [record for _, record in store.messages("t", 0, 0)][:3]
        first, last = records[0].physical_offset, records[-1].physical_offset

        assert answer.code == ResponseCode.SUCCESS
        assert answer.version == 513
        assert answer.fields is not None
        assert answer.fields["nextBeginOffset"] == "3"
        assert answer.body == bytes(store.log.bytes_at(first, last + records[-1].size - first))

    def test_all_that_is_sent_at_once_is_answered_in_order(self, client):
        sent = [
            client.send(RequestCode.GET_MAX_OFFSET, topic="t", queueId="0")
            for _ in range(3 * connection.TURN)
        ]
        answers = [client.answer() for _ in sent]

        assert [each.opaque for each in answers] == sent
        assert {each.fields["offset"] for each in answers} == {str(COUNT)}

    def test_bytes_that_come_one_by_one_are_a_request(self, client):
        command = Command(RequestCode.GET_MIN_OFFSET, 7, fields={"topic": "t", "queueId": "0"})
        for byte in frames.encode(command):
            client.socket.sendall(bytes([byte]))

        assert client.answer().fields == {"offset": "0"}

    def test_the_answer_has_the_codec_of_its_request(self, client):
        command = Command(
            RequestCode.GET_MAX_OFFSET,
            9,
            fields={"topic": "t", "queueId": "0"},
            codec=SerializeType.ROCKETMQ,
        )
        client.socket.sendall(frames.encode(command))
        answer = client.answer()

        assert (answer.codec, answer.fields) == (SerializeType.ROCKETMQ, {"offset": str(COUNT)})

    def test_an_unknown_code_and_a_missing_field_are_told(self, client):
        assert client.ask(4711).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert client.ask(RequestCode.GET_MAX_OFFSET).code == ResponseCode.SYSTEM_ERROR

    def test_a_oneway_request_is_never_answered(self, client):
        for code in (4711, RequestCode.GET_MAX_OFFSET, RequestCode.PULL_MESSAGE):
            client.socket.sendall(frames.encode(Command(code, 1, ONEWAY)))
        assert client.ask(4711).opaque == 1

    def test_a_failure_in_a_room_ends_nothing(self, client, store, monkeypatch, caplog):
        def fail(*_args, **_said) -> None:
            raise RuntimeError("on purpose")

        monkeypatch.setattr(store, "queue_now", fail)
        answer = client.ask(RequestCode.GET_MAX_OFFSET, topic="t", queueId="0")

        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "RuntimeError: on purpose",
        )
        assert "failed" in caplog.text
        assert client.ask(4711).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    def test_a_file_that_cannot_be_read_is_said_once(self, client, store, monkeypatch, caplog):
        """
        Each client asks again, and a log with a page for each answer hides all else.
        """
        path = ["log/0"]

        def fail(*_args, **_said) -> None:
            raise PermissionError(errno.EACCES, "Permission denied", path[0])

        monkeypatch.setattr(store, "queue_now", fail)
        for _ in range(3):
            answer = client.ask(RequestCode.GET_MAX_OFFSET, topic="t", queueId="0")
            assert answer.code == ResponseCode.SYSTEM_ERROR
        path[0] = "log/1"
        client.ask(RequestCode.GET_MAX_OFFSET, topic="t", queueId="0")

        said = [each.getMessage() for each in caplog.records if "requests fail" in each.message]
        assert [text.partition("'")[2] for text in said] == [
            f"{name}' (said once a minute)" for name in ("log/0", "log/1")
        ]
        assert all(each.exc_info is None for each in caplog.records)


class Counted(Uncounted):
    def __init__(self) -> None:
        self.answers: list[tuple[int, int, int, int]] = []

    def answered(
        self, request: int, answer: int, size: int, messages: int = 0, answers: int = 1
    ) -> None:
        self.answers.append((request, answer, messages, answers))


def test_a_pull_that_waits_is_counted_once_it_is_answered(store):
    """
    With the code of its late answer: nearly all pulls of a consumer that keeps up are such.
    """
    counted = Counted()
    with serving(store, counters=counted) as running:
        client = Client(running.broker)
        waits = replace(request(COUNT, flags=6), suspend_timeout_millis=50)
        answer = client.ask(RequestCode.PULL_MESSAGE, **write(waits))
        client.close()

    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert counted.answers == [(RequestCode.PULL_MESSAGE, ResponseCode.PULL_NOT_FOUND, 0, 1)]


class TestNames:
    def test_a_route_leads_to_the_advertised_address(self, running):
        answer = Client(running.names).ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t")
        route = json.loads(answer.body)

        assert route["brokerDatas"][0]["brokerAddrs"] == {"0": f"127.0.0.1:{running.broker}"}
        assert route["queueDatas"] == [
            {
                "brokerName": "b0",
                "perm": 4,
                "readQueueNums": 1,
                "topicSysFlag": 0,
                "writeQueueNums": 1,
            }
        ]

    def test_the_retry_topic_of_a_group_is_there_from_its_first_heartbeat(self, running, client):
        """
        As of a broker: `mqadmin consumerProgress` asks for its route to learn how far a group is.
        """
        beat = groups.Client(client_id="c1").consumes("new").heartbeat()
        other = groups.Client(client_id="c2").consumes("other").heartbeat()
        assert client.ask(RequestCode.HEART_BEAT, beat.body).code == ResponseCode.SUCCESS
        route = partial(Client(running.names).ask, RequestCode.GET_ROUTEINFO_BY_TOPIC)
        asked = {"topic": "%RETRY%new"}
        running.wait_for(lambda _: route(**asked).code == ResponseCode.SUCCESS)
        answer = route(**asked)

        assert json.loads(answer.body)["queueDatas"][0]["readQueueNums"] == 1
        pulled = pull(client, 0, topic="%RETRY%new", group="new")
        assert pulled.code == ResponseCode.PULL_NOT_FOUND
        # It stays when the group has no members.
        client.close()
        running.wait_for(lambda count: count == 0)
        Client(running.broker).ask(RequestCode.HEART_BEAT, other.body)
        asked_of = {"topic": "%RETRY%other"}
        running.wait_for(lambda _: route(**asked_of).code == ResponseCode.SUCCESS)
        assert route(**asked).code == ResponseCode.SUCCESS

    def test_a_topic_that_is_not_there_has_no_route(self, running):
        answer = Client(running.names).ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="other")
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST


class TestPeers:
    @pytest.mark.parametrize(
        "sent",
        [
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00",
            struct.pack(">i", -1),
            struct.pack(">i", frames.MAX_FRAME_LENGTH),
            struct.pack(">iI", 8, 5 << 24 | 4) + b"{}{}",
            struct.pack(">iI", 8, 100) + b"{}{}",
        ],
    )
    def test_what_is_not_a_frame_closes_the_connection_and_no_other(self, client, running, sent):
        other = Client(running.broker)
        other.socket.sendall(sent)

        assert other.is_closed()
        assert pull(client, 0).code == ResponseCode.SUCCESS

    def test_what_came_before_it_is_answered(self, running):
        client = Client(running.broker)
        command = Command(RequestCode.GET_MIN_OFFSET, 1, fields={"topic": "t", "queueId": "0"})
        client.socket.sendall(frames.encode(command) + b"garbage")

        assert client.answer().fields == {"offset": "0"}
        assert client.is_closed()

    def test_a_client_that_does_not_read_costs_no_memory_and_is_closed(self, tmp_path, monkeypatch):
        monkeypatch.setattr(traffic, "STUCK_SECONDS", 0.5)
        store = dispatched(messages(200, size=3000), tmp_path)
        with serving(store) as running:
            slow, other = Client(running.broker), Client(running.broker)
            asked = write(request(0, limit=32))
            command = Command(RequestCode.PULL_MESSAGE, 1, fields=asked)
            slow.socket.settimeout(1)
            # 80 MB of answers.
            slow.socket.sendall(frames.encode(command) * 800)

            assert pull(other, 0).code == ResponseCode.SUCCESS
            running.wait_for(lambda connections: connections == 1)
            assert slow.is_closed()

    def test_a_client_that_does_not_read_at_the_end(self, tmp_path):
        """
        It is not counted any longer: a store that has failed ends so, and is served again.
        """
        counted = Connections()
        with serving(dispatched(messages(200, size=3000), tmp_path), counters=counted) as running:
            slow = Client(running.broker)
            command = Command(RequestCode.PULL_MESSAGE, 1, fields=write(request(0, limit=32)))
            slow.socket.sendall(frames.encode(command) * 800)
            wait_until(lambda: counted.not_reading == 1, 30)

        assert (counted.open, counted.not_reading) == (0, 0)

    def test_a_silent_client_is_closed(self, store, monkeypatch):
        monkeypatch.setattr(traffic, "IDLE_SECONDS", 0.2)
        with serving(store) as running:
            assert Client(running.broker).is_closed()

    def test_frames_that_are_never_whole_are_bounded(self, store, monkeypatch, caplog):
        caplog.set_level("INFO", "reput")
        monkeypatch.setattr(traffic, "MOST_PENDING", 1 << 20)
        with serving(store) as running:
            half = struct.pack(">i", 8 << 20) + bytes(700_000)
            first, second = Client(running.broker), Client(running.broker)
            first.socket.sendall(half)
            assert pull(second, 0).code == ResponseCode.SUCCESS
            second.socket.sendall(half)

            assert second.is_closed()
        # It is said, and counted, once.
        assert caplog.text.count("is closed: it does not speak the protocol") == 1

    def test_an_answer_that_clients_do_not_read_is_an_error(self, tmp_path, monkeypatch, caplog):
        """
        Such as 64 messages of a key with half a megabyte each: other requests of the connection
        are answered.
        """
        log = Log()
        for i in range(40):
            log.append(Message("t", bytes(3000), {"KEYS": "k"}, 0, i, store_timestamp=NOW + i))
        store = dispatched(log, tmp_path)
        asked = {"topic": "t", "key": "k", "beginTimestamp": "0", "endTimestamp": str(2 * NOW)}
        with serving(store) as running:
            monkeypatch.setattr(frames, "MAX_FRAME_LENGTH", 1 << 16)
            client, names = Client(running.broker), Client(running.names)
            few, many = (
                client.ask(RequestCode.QUERY_MESSAGE, maxNum=number, **asked)
                for number in ("10", "64")
            )
            pulled = pull(client, 0)
            monkeypatch.setattr(frames, "MAX_FRAME_LENGTH", 250)
            routes = names.ask(RequestCode.GET_BROKER_CLUSTER_INFO)

        assert (few.code, pulled.code) == (ResponseCode.SUCCESS,) * 2
        assert many.code == routes.code == ResponseCode.SYSTEM_ERROR
        assert many.remark is not None
        assert "the answer is larger than clients read, ask for less: a frame of" in many.remark
        assert "Fatal error" not in caplog.text


class TestReset:
    """`tests/remoting/server/test_resets.py` has it with real consumers and a real tool."""

    def reset(self, client):
        said = {"group": "g", "topic": "t", "timestamp": "0", "isForce": "true"}
        return client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **said)

    def test_the_next_pull_is_told_and_the_one_after_it_answered(self, tmp_path):
        with serving(dispatched(messages(6), tmp_path)) as running:
            client = Client(running.broker)
            assert client.ask(RequestCode.PULL_MESSAGE, **write(request(3))).code == 0
            assert self.reset(client).code == 0
            told, after = (
                client.ask(RequestCode.PULL_MESSAGE, **write(request(3))) for _ in range(2)
            )
            client.close()

        assert (told.code, told.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
        assert (told.fields["nextBeginOffset"], told.fields["maxOffset"]) == ("0", "6")
        assert after.code == ResponseCode.SUCCESS

    def test_a_broker_that_does_not_do_it_itself_needs_members(self, tmp_path):
        store = dispatched(messages(6), tmp_path)
        with serving(store, useServerSideResetOffset="false") as running:
            client = Client(running.broker)
            said = {"consumerGroup": "g", "topic": "t", "commitOffset": "3"}
            client.ask(RequestCode.PULL_MESSAGE, **write(request(3)))
            for queue in range(16):
                client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, queueId=str(queue), **said)
            answer = self.reset(client)
            client.close()

        assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
