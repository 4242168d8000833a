"""Messages that are sent back to a server that is killed: kept, delivered once, beside the store's."""

from __future__ import annotations

import json
import time

import pytest

from reput.formats.rocketmq import commitlog
from reput.formats.rocketmq.encode import Message
from reput.remoting.keeping.log import FIRST
from reput.remoting.sending.refusals import READ_ONLY
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.send_headers import LONG_NAMES
from tests.builders.served import NOW, dispatched
from tests.builders.servers import Client
from tests.builders.stores import Log
from tests.builders.waiting import wait_until
from tests.remoting.server.served_process import ServedProcess

PULL = {
    "consumerGroup": "g",
    "maxMsgNums": "32",
    "sysFlag": "6",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subVersion": "0",
    "subscription": "*",
}
RETRY = "%RETRY%g"


@pytest.fixture
def directory(tmp_path):
    """
    Return where a store is whose broker had kept a message of the group itself.
    """
    log = Log()
    for number in range(3):
        said = {"TAGS": "A", "UNIQ_KEY": f"U{number}"}
        log.append(Message("t", b"body", said, 0, number, store_timestamp=NOW + number))
    said = {"RETRY_TOPIC": "t", "ORIGIN_MESSAGE_ID": "ID", "UNIQ_KEY": "U9"}
    log.append(Message(RETRY, b"old", said, 0, 0, store_timestamp=NOW + 9, reconsume_times=1))
    with dispatched(log, tmp_path) as store:
        assert store.topics() == [RETRY, "t"]
    return tmp_path


@pytest.fixture
def process(directory):
    """
    Return a server that keeps messages; a test that fails leaves none behind.
    """
    made = ServedProcess(directory, "--sent-back", "keep")
    yield made
    made.end()


def pulled(client: Client, topic: str, queue: int, offset: int = 0) -> list[commitlog.Record]:
    """
    Return what a pull that may wait gets.
    """
    said = PULL | {"topic": topic, "queueId": str(queue), "queueOffset": str(offset)}
    until = time.monotonic() + 20
    while True:
        client.send(RequestCode.PULL_MESSAGE, **said)
        answer = client.answer(20)
        # The topic is there within a second or so; a held pull may come back with nothing.
        if answer.code == ResponseCode.SUCCESS or time.monotonic() > until:
            break
        time.sleep(0.1)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    records, at = [], 0
    while at < len(answer.body):
        size, position = (
            int.from_bytes(answer.body[at:][:4], "big"),
            int.from_bytes(answer.body[at + commitlog.PHYSICAL_OFFSET_AT :][:8], "big"),
        )
        _, record = commitlog.read(answer.body, at, position, position + size)
        records.append(record)
        at += size
    return records


def send_back(client: Client, offset: int, level: int, **more: str) -> None:
    said = {"offset": str(offset), "group": "g", "delayLevel": str(level)} | more
    answer = client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **said)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)


def test_a_kill_loses_nothing_and_repeats_nothing(process):
    process.start()
    client = Client(process.broker)
    first, second, third = pulled(client, "t", 0)
    send_back(client, first.physical_offset, 1)
    (again,) = pulled(client, RETRY, 1)
    send_back(client, second.physical_offset, 2)
    process.kill()
    client.close()

    process.start()
    client = Client(process.broker)
    same, late = pulled(client, RETRY, 1)[0], pulled(client, RETRY, 1, 1)[0]
    assert same == again
    assert again.physical_offset >= FIRST
    assert [each.properties["UNIQ_KEY"] for each in (same, late)] == ["U0", "U1"]
    assert (again.reconsume_times, again.body, again.queue_offset) == (1, b"body", 0)
    assert again.store_host == f"127.0.0.1:{process.broker}"
    assert late.store_timestamp - again.store_timestamp > 0
    # What the store's own broker had kept.
    assert [each.body for each in pulled(client, RETRY, 0)] == [b"old"]
    # What is sent back once more; no more tries.
    send_back(client, again.physical_offset, 1, maxReconsumeTimes="1")
    send_back(client, third.physical_offset, -1)
    until = time.monotonic() + 20
    while (
        client.ask(RequestCode.GET_MAX_OFFSET, topic="%DLQ%g", queueId="1").fields["offset"] < "2"
    ):
        assert time.monotonic() < until
        time.sleep(0.1)
    view = client.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=str(again.physical_offset))
    assert bytes(view.body)[commitlog.PHYSICAL_OFFSET_AT :][:8] == again.physical_offset.to_bytes(
        8, "big"
    )
    # A member that is not there is all that is wrong: the message is found.
    host = f"7F000001{process.broker:08X}"
    said = {"clientId": "c", "msgId": f"{host}{again.physical_offset:016X}"}
    asked = client.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, consumerGroup="g", **said)
    assert asked.remark == "The Consumer <g> <c> not online"
    client.close()
    assert process.end() == 0


def sent(level: int, **more: str) -> dict[str, str]:
    """
    Return what a consumer's own producer sends to the retry topic, by long names.
    """
    said = {"RETRY_TOPIC": "t", "ORIGIN_MESSAGE_ID": "ID", "UNIQ_KEY": "U7", "DELAY": str(level)}
    return {
        "producerGroup": "CLIENT_INNER_PRODUCER",
        "topic": RETRY,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": str(NOW),
        "flag": "7",
        "properties": "".join(f"{name}\x01{value}\x02" for name, value in said.items()),
        "reconsumeTimes": "1",
        "maxReconsumeTimes": "2",
    } | more


def test_what_members_send_to_their_retry_topic_themselves_is_kept(process):
    process.start()
    client = Client(process.broker)
    short = {long: name for name, long in LONG_NAMES.items()}
    # It makes the group known.
    pulled(client, "t", 0)
    answer = client.ask(
        RequestCode.SEND_MESSAGE_V2,
        b"again",
        **{short[name]: value for name, value in sent(1).items()},
    )
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert (answer.fields["transactionId"], answer.fields["TRACE_ON"]) == ("U7", "true")
    (again,) = pulled(client, RETRY, 1)
    assert (again.body, again.reconsume_times, again.flag) == (b"again", 1, 7)
    assert again.properties["ORIGIN_MESSAGE_ID"] == "ID"
    assert again.store_host == f"127.0.0.1:{process.broker}"
    route = Client(process.names).ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=RETRY)
    assert json.loads(route.body)["queueDatas"][0]["perm"] == 6

    wrong = client.ask(RequestCode.SEND_MESSAGE, b"no", **sent(1, properties="DELAY\x01soon"))
    assert wrong.code == ResponseCode.SYSTEM_ERROR

    # More often than it may be; then, of a group that consumes in order.
    more = sent(1, reconsumeTimes="3")
    assert client.ask(RequestCode.SEND_MESSAGE, b"dead", **more).code == ResponseCode.SUCCESS
    queue = {"brokerName": "b", "queueId": 0, "topic": "t"}
    locks = {"consumerGroup": "g", "clientId": "c", "mqSet": [queue]}
    client.ask(RequestCode.LOCK_BATCH_MQ, json.dumps(locks).encode())
    assert client.ask(RequestCode.SEND_MESSAGE, b"given up", **sent(1)).code == ResponseCode.SUCCESS
    dead = [pulled(client, "%DLQ%g", 1, offset)[0] for offset in (0, 1)]
    assert [(each.body, each.properties["DELAY"]) for each in dead] == [
        (b"dead", "-1"),
        (b"given up", "-1"),
    ]

    # Nothing else is written.
    for fields in (
        sent(1, topic="t"),
        sent(1, batch="true"),
        sent(1, properties="TRAN_MSG\x01true"),
    ):
        refused = client.ask(RequestCode.SEND_MESSAGE, b"no", **fields)
        assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, READ_ONLY)
    client.close()
    assert process.end() == 0


def test_a_broker_of_4_9_lets_dead_letters_wait(directory):
    """
    They are tried once less, and their delay stays; that the group has locks does not matter.
    """
    process = ServedProcess(directory, "--sent-back", "keep", "--broker-version", "4.9")
    process.start()
    try:
        client = Client(process.broker)
        pulled(client, "t", 0)
        said = sent(1, reconsumeTimes="2")
        answer = client.ask(RequestCode.SEND_MESSAGE, b"dead", **said)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert "transactionId" not in answer.fields
        (dead,) = pulled(client, "%DLQ%g", 1)
        assert (dead.body, dead.properties["DELAY"]) == (b"dead", "1")
        client.close()
    finally:
        assert process.end() == 0


def test_a_store_is_followed_while_what_is_kept_beside_it_is_away(process, directory):
    """
    The log named the kept messages as the store's files, and what became of these went unseen.
    """
    process.start()
    client = Client(process.broker)
    first, *_ = pulled(client, "t", 0)
    send_back(client, first.physical_offset, 1)
    kept = next((directory / "offsets").glob("*.sent-back"))
    pulled(client, RETRY, 1)
    kept.rename(directory / "away")
    until_said(process, f"{kept}: messages that were sent back cannot be read")
    assert client.ask(RequestCode.PULL_MESSAGE, **asked(RETRY, 1)).code == 1
    said = {"offset": str(first.physical_offset), "group": "g", "delayLevel": "1"}
    for _ in range(5):
        assert client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **said).code == 1
    assert process.log.read_text().count("could not be kept") == 1
    assert pulled(client, "t", 0)[0] == first
    (directory / "store" / "commitlog").rename(directory / "log")
    until_said(process, f"{directory / 'store'}: clients are told to try again")
    (directory / "log").rename(directory / "store" / "commitlog")
    (directory / "away").rename(kept)
    until_said(process, f"{directory / 'store'}: the files are back")
    until_said(process, f"{kept}: messages that were sent back are there again")
    assert len(pulled(client, RETRY, 1)) == 1
    client.close()
    assert process.end() == 0


def until_said(process: ServedProcess, line: str) -> None:
    wait_until(lambda: line in process.log.read_text(), says=process.log.read_text)


def asked(topic: str, queue: int) -> dict[str, str]:
    return PULL | {"topic": topic, "queueId": str(queue), "queueOffset": "0"}


def test_a_bound_that_is_too_small_is_refused(directory):
    process = ServedProcess(directory, "--sent-back", "keep", "--sent-back-bytes", "32m")
    with pytest.raises(RuntimeError, match=r"--sent-back-bytes 32m: .* at least 64m"):
        process.start()
