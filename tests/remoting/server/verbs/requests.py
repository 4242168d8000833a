"""Requests besides the captured ones: all that the dashboard and the exporter ask, and other tools.

RocketMQ's dashboard and its exporter call `DefaultMQAdminExt`. By method of that class:

======================================================== ==================================
examineBrokerClusterInfo, fetchAllTopicList               106, 206
examineTopicRouteInfo, examineTopicStats                  105, 202
examineTopicConfig, getAllTopicConfig                     351, 21
queryTopicConsumeByWho, examineConsumeStats               300, 208
examineConsumerConnectionInfo, examineProducerConnectionInfo 203, 204
getAllProducerInfo                                        328
examineSubscriptionGroupConfig, getAllSubscriptionGroup   352, 201
fetchBrokerRuntimeStats, getBrokerConfig                  28, 26
viewBrokerStatsData                                       315
queryMessage, viewMessage, messageTrackDetail             12, 33
getConsumerRunningInfo, consumeMessageDirectly            307, 309
resetOffsetByTimestamp, resetOffsetByTimestampOld         222
getUser, listUser, listAcl                                3004, 3005, 3010
the rest of the dashboard's                               writes: 17, 200, 207, 215, 216, 3001…
======================================================== ==================================
"""

from __future__ import annotations

from reput.remoting.wire.codes import RequestCode as Code
from tests.remoting.server.verbs.processes import BROKER_PORT, NAMES_PORT

Asked = tuple[int, int, dict[str, str] | None, bytes]


def _names(code: int, **fields: str) -> Asked:
    return (NAMES_PORT, code, fields, b"")


def _broker(code: int, **fields: str) -> Asked:
    return (BROKER_PORT, code, fields, b"")


_STATS = {
    "TOPIC_PUT_NUMS": "T1",
    "TOPIC_PUT_SIZE": "T1",
    "GROUP_GET_NUMS": "T1@CGH",
    "GROUP_GET_SIZE": "T1@CGH",
    "SNDBCK_PUT_NUMS": "T1@CG1",
    "BROKER_PUT_NUMS": "cl0",
}
_GROUPS = ("CG1", "CGU", "CGB", "CGL", "CGP", "CGR", "CG9", "CGD", "nobody")
_TOPICS = ("T1", "TG", "Empty", "Fifo", "Late", "%RETRY%CGR", "%DLQ%CGR", "nobody")

ASKED: tuple[Asked, ...] = (
    _names(Code.GET_BROKER_CLUSTER_INFO),
    _names(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
    _names(Code.GET_TOPICS_BY_CLUSTER, cluster="cl0"),
    _names(Code.GET_TOPICS_BY_CLUSTER, cluster="nobody"),
    _names(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS),
    _names(Code.GET_UNIT_TOPIC_LIST),
    _names(Code.GET_HAS_UNIT_SUB_TOPIC_LIST),
    _names(Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
    _names(Code.GET_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T1"),
    _names(Code.GET_KVLIST_BY_NAMESPACE, namespace="ORDER_TOPIC_CONFIG"),
    *(_names(Code.GET_ROUTEINFO_BY_TOPIC, topic=each) for each in _TOPICS),
    *(_broker(Code.GET_TOPIC_STATS_INFO, topic=each) for each in _TOPICS),
    *(_broker(Code.GET_TOPIC_CONFIG, topic=each) for each in _TOPICS),
    *(_broker(Code.QUERY_TOPIC_CONSUME_BY_WHO, topic=each) for each in _TOPICS),
    *(_broker(Code.GET_CONSUME_STATS, consumerGroup=each) for each in _GROUPS),
    _broker(Code.GET_CONSUME_STATS, consumerGroup="CGP", topic="T1"),
    _broker(Code.GET_CONSUME_STATS, consumerGroup="CG1", topic="TG"),
    _broker(Code.GET_CONSUME_STATS, consumerGroup="CG1", topicList="T1;TG"),
    *(_broker(Code.GET_CONSUMER_CONNECTION_LIST, consumerGroup=each) for each in _GROUPS),
    *(_broker(Code.GET_SUBSCRIPTIONGROUP_CONFIG, group=each) for each in _GROUPS),
    *(_broker(Code.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=each) for each in _GROUPS),
    *(_broker(Code.QUERY_TOPICS_BY_CONSUMER, group=each) for each in _GROUPS),
    _broker(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, group="CG1", topic="T1"),
    _broker(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, group="nobody", topic="T1"),
    *(
        _broker(Code.QUERY_CONSUME_TIME_SPAN, topic=topic, group=group)
        for topic, group in (("T1", "CGP"), ("T1", "nobody"), ("Empty", "CG1"), ("nobody", "CG1"))
    ),
    _broker(Code.GET_PRODUCER_CONNECTION_LIST, producerGroup="PG1"),
    _broker(Code.GET_PRODUCER_CONNECTION_LIST, producerGroup="nobody"),
    _broker(Code.GET_ALL_PRODUCER_INFO),
    _broker(Code.GET_ALL_TOPIC_CONFIG),
    _broker(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    _broker(Code.GET_ALL_CONSUMER_OFFSET),
    _broker(Code.GET_ALL_DELAY_OFFSET),
    _broker(Code.GET_ALL_MESSAGE_REQUEST_MODE),
    _broker(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER),
    _broker(Code.GET_BROKER_RUNTIME_INFO),
    _broker(Code.GET_BROKER_HA_STATUS),
    _broker(Code.GET_BROKER_CONSUME_STATS, isOrder="false"),
    _broker(Code.GET_BROKER_CONSUME_STATS, isOrder="true"),
    *(
        _broker(Code.VIEW_BROKER_STATS_DATA, statsName=name, statsKey=key)
        for name, key in _STATS.items()
    ),
    _broker(Code.GET_BROKER_EPOCH_CACHE),
    _broker(Code.GET_COLD_DATA_FLOW_CTR_INFO),
    _broker(Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, topic="T1", checkStoreTime="0"),
    _broker(Code.EXPORT_ROCKSDB_CONFIG_TO_JSON, configType="topics"),
    _broker(Code.AUTH_GET_USER, username="a"),
    _broker(Code.AUTH_LIST_USER, filter=""),
    _broker(Code.AUTH_GET_ACL, subject="User:a"),
    _broker(Code.AUTH_LIST_ACL),
    _broker(Code.GET_BROKER_LITE_INFO),
    _broker(Code.GET_PARENT_TOPIC_INFO, topic="T1"),
    _broker(Code.GET_LITE_TOPIC_INFO, parentTopic="T1", liteTopic="a"),
    _broker(Code.GET_LITE_CLIENT_INFO, parentTopic="T1", group="CG1", clientId="10.0.0.7@c1"),
    _broker(Code.GET_LITE_GROUP_INFO, group="CG1", liteTopic="", topK="20"),
    _broker(Code.GET_CONSUMER_RUNNING_INFO, consumerGroup="CG1", clientId="nobody"),
    _broker(
        Code.CONSUME_MESSAGE_DIRECTLY,
        consumerGroup="CG1",
        clientId="nobody",
        msgId="7F00000100002A9F0000000000000000",
    ),
    _broker(Code.QUERY_CONSUMER_OFFSET, consumerGroup="CGP", topic="T1", queueId="0"),
    _broker(Code.QUERY_CONSUMER_OFFSET, consumerGroup="CGP", topic="T1", queueId="7"),
    _broker(Code.GET_MAX_OFFSET, topic="T1", queueId="0"),
    _broker(Code.GET_MIN_OFFSET, topic="T1", queueId="0"),
    _broker(Code.GET_EARLIEST_MSG_STORETIME, topic="T1", queueId="0"),
    _broker(Code.GET_EARLIEST_MSG_STORETIME, topic="T1", queueId="9"),
    _broker(Code.SEARCH_OFFSET_BY_TIMESTAMP, topic="T1", queueId="0", timestamp="0"),
    _broker(Code.SEARCH_OFFSET_BY_TIMESTAMP, topic="T1", queueId="0", timestamp="9999999999999"),
)
