"""Typed headers, with what a broker says where a field is missing or wrong."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.remoting.wire import admin_headers, fields, name_headers, pull_headers
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.errors import FieldError
from reput.remoting.wire.fields import Int, Long
from reput.remoting.wire.pull_headers import (
    GetMaxOffsetRequestHeader,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    SearchOffsetRequestHeader,
    UnregisterClientRequestHeader,
)
from tests.remoting.wire.captured import NAMES, captured

KINDS = [
    kind
    for module in (pull_headers, admin_headers, name_headers)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, fields.Header) and kind is not fields.Header
]
PULL = {
    "consumerGroup": "g", "topic": "t", "queueId": "1", "queueOffset": "2", "maxMsgNums": "32",
    "sysFlag": "3", "commitOffset": "4", "suspendTimeoutMillis": "15000", "subVersion": "5",
}  # fmt: skip
VALUES = {
    str: st.text(max_size=5),
    bool: st.booleans(),
    Int: st.integers(-(1 << 31), (1 << 31) - 1),
    Long: st.integers(-(1 << 63), (1 << 63) - 1),
}
REQUESTS = {
    RequestCode.PULL_MESSAGE: PullMessageRequestHeader,
    RequestCode.LITE_PULL_MESSAGE: PullMessageRequestHeader,
    RequestCode.QUERY_CONSUMER_OFFSET: pull_headers.QueryConsumerOffsetRequestHeader,
    RequestCode.UPDATE_CONSUMER_OFFSET: pull_headers.UpdateConsumerOffsetRequestHeader,
    RequestCode.GET_MAX_OFFSET: GetMaxOffsetRequestHeader,
    RequestCode.GET_MIN_OFFSET: pull_headers.GetMinOffsetRequestHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: SearchOffsetRequestHeader,
    RequestCode.UNREGISTER_CLIENT: UnregisterClientRequestHeader,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: pull_headers.GetConsumerListByGroupRequestHeader,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: pull_headers.NotifyConsumerIdsChangedRequestHeader,
    RequestCode.CONSUMER_SEND_MSG_BACK: pull_headers.ConsumerSendMsgBackRequestHeader,
    RequestCode.QUERY_MESSAGE: admin_headers.QueryMessageRequestHeader,
    RequestCode.VIEW_MESSAGE_BY_ID: admin_headers.ViewMessageRequestHeader,
    RequestCode.QUERY_CONSUME_QUEUE: admin_headers.QueryConsumeQueueRequestHeader,
    RequestCode.GET_TOPIC_STATS_INFO: admin_headers.GetTopicStatsInfoRequestHeader,
    RequestCode.GET_CONSUME_STATS: admin_headers.GetConsumeStatsRequestHeader,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: admin_headers.GetConsumerConnectionListRequestHeader,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: admin_headers.QueryTopicConsumeByWhoRequestHeader,
    RequestCode.VIEW_BROKER_STATS_DATA: admin_headers.ViewBrokerStatsDataRequestHeader,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: name_headers.GetRouteInfoRequestHeader,
    RequestCode.REGISTER_BROKER: name_headers.RegisterBrokerRequestHeader,
}
# Access, namespaces, tracing: they ride on any request (REMOTING's own names).
RIDERS = {"ns", "nsd", "bname", "oway", "lo", "ReqT", "AccessKey", "Signature", "SecurityToken",
          "unitMode", "_UNIQUE_KEY_QUERY", "committed"}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_real_request_is_read_and_written_again(name):
    seen = set()
    for frame in captured(name):
        command = frame.command
        kind = REQUESTS.get(command.code)
        if kind is None or command.is_response:
            continue
        seen.add(kind)
        given_fields = command.fields or {}
        written = fields.write(fields.read(kind, given_fields))
        known = {place.name for place in fields.places(kind)}
        assert {k: v for k, v in given_fields.items() if k in known}.items() <= written.items()
        assert set(given_fields) - known <= RIDERS, (kind, set(given_fields) - known)
    assert len(seen) > 5


@given(st.sampled_from(KINDS), st.data())
def test_round_trip(kind, data):
    """
    Absent fields get their defaults; what is empty stays so.
    """
    values = {
        place.attribute: data.draw(VALUES[place.kind])
        for place in fields.places(kind)
        if place.is_required or data.draw(st.booleans())
    }
    header = kind(**values)

    written = fields.write(header)
    assert all(type(value) is str for value in written.values())
    assert fields.read(kind, written) == header


@pytest.mark.parametrize("kind", KINDS)
def test_each_missing_field_is_named(kind):
    whole = {p.name: {str: "t", bool: "true"}.get(p.kind, "1") for p in fields.places(kind)}
    for place in fields.places(kind):
        lacking = {name: value for name, value in whole.items() if name != place.name}
        if place.is_required:
            with pytest.raises(FieldError, match=f"the custom field <{place.name}> is null"):
                fields.read(kind, lacking)
        else:
            [default] = (f.default for f in dataclasses.fields(kind) if f.name == place.attribute)
            assert getattr(fields.read(kind, lacking), place.attribute) == default


class TestPull:
    def test_values(self):
        header = fields.read(PullMessageRequestHeader, PULL | {"ReqT": "0", "maxMsgBytes": "7"})

        assert header == PullMessageRequestHeader(
            "g", "t", 1, 2, 32, 3, 4, 15000, 5, max_msg_bytes=7
        )

    @pytest.mark.parametrize("text", ["", "x", "1.0", " 1", "2147483648", "0x1", "1_0"])
    def test_what_is_not_a_number_is_refused(self, text):
        """
        A `FastCodesHeader` throws; the client sees this remark.
        """
        with pytest.raises(FieldError) as caught:
            fields.read(PullMessageRequestHeader, PULL | {"queueId": text})
        assert caught.value.remark == (
            f'java.lang.NumberFormatException: For input string: "{text}"'
        )

    def test_names_that_are_not_camel_case(self):
        header = PullMessageResponseHeader(0, 1, 2, 3)
        assert fields.write(header) == {
            "suggestWhichBrokerId": "0", "nextBeginOffset": "1", "minOffset": "2", "maxOffset": "3",
        }  # fmt: skip
        assert fields.write(UnregisterClientRequestHeader("me")) == {"clientID": "me"}
        pull = fields.read(PullMessageRequestHeader, PULL | {"proxyFrowardClientId": "p"})
        assert pull.proxy_client_id == "p"


def test_other_headers_take_what_is_not_a_number_for_null():
    """
    Their decoder logs it and continues.
    """
    asked = {"topic": "t", "queueId": "1", "committed": "yes"}
    assert fields.read(GetMaxOffsetRequestHeader, asked).committed is False
    assert fields.read(GetMaxOffsetRequestHeader, asked | {"committed": "TRUE"}).committed is True
    with pytest.raises(FieldError) as caught:
        fields.read(GetMaxOffsetRequestHeader, asked | {"queueId": "x"})
    assert "the custom field <queueId> is null" in caught.value.remark
    with pytest.raises(FieldError, match="<topic>"):
        fields.read(GetMaxOffsetRequestHeader, None)
