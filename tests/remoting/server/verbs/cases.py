"""What is asked: each verb of mqadmin with the options that change what it asks or prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.remoting.server.verbs.processes import BROKER, BROKER_PORT, CLUSTER, LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = f"{LOOPBACK}:{BROKER_PORT}"
_B, _C = f"-b {ADDRESS}", f"-c {CLUSTER}"
_TOPICS = (
    *("T1", "TG", "Empty", "Closed", "Fifo", "Late", "TX1", "RMQ_SYS_TRACE_TOPIC", "%RETRY%CG1"),
    *("%RETRY%CGR", "%DLQ%CGR", "SCHEDULE_TOPIC_XXXX", "TBW102", "nobody"),
)
_GROUPS = (
    *("CG1", "CGU", "CGS", "CGT", "GCG", "CGB", "CGO", "CGL", "CGP", "CGR", "CG9", "CGD"),
    *("TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS", "nobody"),
)


class Ids(NamedTuple):
    """Messages of the store.

    Attributes:
        plain: offset id of the first of T1.
        unique: its UNIQ_KEY.
        large: offset id of a compressed message.
        retried: UNIQ_KEY of a message that was sent back.
        ends: physical offset after the log.
    """

    plain: str
    unique: str
    large: str
    retried: str


class Case(NamedTuple):
    """A verb with its options; whether it writes; the line of releases that has it so."""

    words: tuple[str, ...]
    writes: bool = False
    only: str = ""

    @property
    def verb(self) -> str:
        return self.words[0]


def cases(ids: Ids, version: str) -> list[Case]:
    """Return what is asked of a version."""
    all_cases = [*_of_brokers(), *_of_topics(), *_of_groups(), *_of_messages(ids), *_of_5()]
    all_cases += [*_of_offsets(), *_writes()]
    return [each for each in all_cases if version.startswith(each.only)]


def _read(line: str, only: str = "") -> Case:
    return Case(tuple(line.split()), only=only)


def _of_brokers() -> Iterator[Case]:
    yield from map(
        _read,
        (
            *("clusterList", "clusterList -m", "getNamesrvConfig", "startMonitoring --help"),
            *(f"brokerStatus {_B}", f"brokerStatus {_C}", f"getBrokerConfig {_B}"),
            *(f"getBrokerConfig {_C}", f"haStatus {_B}", f"haStatus {_C}"),
            *(
                f"producer {_B}",
                f"exportConfigs {_C} -f exported",
                f"exportMetrics {_C} -f exported",
            ),
            *(f"exportMetadata {_C} -f exported", f"exportMetadata {_C} -t -f exported"),
            *(f"exportMetadata {_C} -g -f exported", f"exportMetadata {_B} -t -s -f exported"),
            *(f"exportMetadata {_B} -g -s -f exported",),
            *(f"brokerConsumeStats {_B}", f"brokerConsumeStats {_B} -l 3", "statsAll"),
            *(
                f"brokerConsumeStats {_B} -o true",
                "statsAll -a",
                "statsAll -t T1",
                "statsAll -t none",
            ),
            f"brokerStatus -b {LOOPBACK}:1",
        ),
    )
    yield _read("clusterList -c nobody", "5")
    yield _read(f"clusterAclConfigVersion {_B}", "4")
    yield _read(f"clusterAclConfigVersion {_C}", "4")


def _of_topics() -> Iterator[Case]:
    yield from map(_read, ("topicList", "topicList -c", "allocateMQ -t T1 -i 10.0.0.7,10.0.0.8"))
    for topic in _TOPICS:
        yield _read(f"topicRoute -t {topic}")
        yield _read(f"topicStatus -t {topic}")
        yield _read(f"topicClusterList -t {topic}")
    yield _read("topicRoute -t T1 -l")
    yield _read("topicStatus -t T1 -c cl0", "5")
    for queue, first, count in ((0, 0, 3), (1, 5, 100), (0, 24, 1), (0, 99, 1), (7, 0, 1)):
        yield _read(f"queryCq -t T1 -q {queue} -i {first} -c {count}")
    yield _read(f"queryCq -t T1 -q 0 -i 0 -c 4 {_B} -g CG1")
    yield _read(f"queryCq -t T1 -q 0 -i 0 -c 4 {_B} -g CGS")
    yield _read(f"queryCq -t T1 -q 0 -i 0 -c 4 {_B} -g nobody")
    yield _read(f"queryCq -t nobody -q 0 -i 0 -c 4 {_B}")


def _of_groups() -> Iterator[Case]:
    yield _read("consumerProgress")
    yield _read("consumerProgress -s true")
    yield _read("consumerProgress -g CG1 -t T1", "5")
    yield _read("consumerProgress -g CG1 -t TG", "5")
    for group in _GROUPS:
        yield _read(f"consumerProgress -g {group}")
        yield _read(f"consumerProgress -g {group} -s true")
        yield _read(f"consumerConnection -g {group}")
        yield _read(f"consumerStatus -g {group}")
        yield _read(f"getConsumerConfig -g {group}")
    yield _read(f"consumerConnection -g CG1 {_B}")
    yield _read("consumerStatus -g CG1 -i 10.0.0.7@c1")
    yield _read("consumerStatus -g CG1 -i 10.0.0.7@c1 -s")
    yield _read("consumerStatus -g CG1 -i nobody")
    yield _read(f"consumerStatus -g CGO {_B}")
    for group in ("PG1", "nobody"):
        yield _read(f"producerConnection -g {group} -t T1")
    yield _read("producerConnection -g PG1 -t nobody")


def _of_messages(ids: Ids) -> Iterator[Case]:
    for each in (ids.plain, ids.large):
        yield _read(f"queryMsgById -i {each}", "4")
        yield _read(f"queryMsgById -i {each} -t T1", "5")
        yield _read(f"queryMsgById -i {each} -t T1 -f UTF-8", "5")
    yield _read(f"queryMsgById -i {ids.unique} -t T1", "5")
    yield _read(f"queryMsgById -i {ids.plain[:-4]}ffff", "4")
    yield _read(f"queryMsgById -i {ids.plain[:-4]}ffff -t T1", "5")
    yield _read(f"queryMsgById -i {ids.plain} -t T1 -g CG1 -d 10.0.0.7@c1", "5")
    yield _read(f"queryMsgById -i {ids.plain} -g CG1 -d 10.0.0.7@c1", "4")
    for topic, key in (("T1", "k7"), ("T1", "ofT1"), ("T1", "nothing"), ("nobody", "k7")):
        yield _read(f"queryMsgByKey -t {topic} -k {key}")
    for words in ("-m 3", "-p T -k TagA", "-c cl0", "-b 0 -e 99"):
        key = "" if "-k" in words else "-k ofT1"
        yield _read(f"queryMsgByKey -t T1 {key} {words}", "5")
    for words in ("", " -a", " -g CG1 -d 10.0.0.7@c1"):
        yield _read(f"queryMsgByUniqueKey -t T1 -i {ids.unique}{words}")
    yield _read(f"queryMsgByUniqueKey -t T1 -i {ids.unique} -c cl0", "5")
    yield _read(f"queryMsgByUniqueKey -t %RETRY%CGR -i {ids.retried}")
    yield _read(f"queryMsgByUniqueKey -t %DLQ%CGR -i {ids.retried}")
    yield _read(f"queryMsgByUniqueKey -t T1 -i {ids.unique[:-4]}FFFF")
    for place in ((0, 0), (1, 4), (0, 23), (0, 24), (1, 999), (5, 0)):
        yield _read("queryMsgByOffset -t T1 -b b0 -i {} -o {}".format(*place))
    yield _read("queryMsgByOffset -t %DLQ%CGR -b b0 -i 0 -o 0")
    yield _read("queryMsgTraceById -i TRACED0000000000000000000000000A")
    yield _read("queryMsgTraceById -i nothing")
    yield _read("queryMsgTraceById -i TRACED0000000000000000000000000A -t RMQ_SYS_TRACE_TOPIC")
    for topic in ("T1", "TG", "TX1", "Late", "Empty", "Fifo", "nobody"):
        yield _read(f"printMsg -t {topic} -d true")
    yield _read("printMsg -t T1 -d true -s TagA||TagC")
    yield _read("printMsg -t T1 -d false -b 0 -e 1")
    yield Case(("printMsg", "-t", "T1", "-d", "true", "-b", "currentTimeMillis"))
    yield _read("printMsgByQueue -t T1 -a b0 -i 1 -p true -d true")
    yield _read("printMsgByQueue -t T1 -a b0 -i 1 -p true -d true -f true -s TagB")
    yield _read("printMsgByQueue -t T1 -a b0 -i 1 -f true")
    yield _read("consumeMessage -t T1")
    yield _read("consumeMessage -t T1 -b b0 -i 1 -o 3 -c 4")
    yield _read("consumeMessage -t T1 -b b0 -i 0 -c 2 -g CGL2")
    yield _read("consumeMessage -t nobody")


def _of_5() -> Iterator[Case]:
    lines = (
        *(
            f"getColdDataFlowCtrInfo {_B}",
            f"getColdDataFlowCtrInfo {_C}",
            f"getBrokerEpoch -b {BROKER}",
        ),
        *(f"getBrokerEpoch {_C}", f"listUser {_B}", f"listUser {_C}", f"getUser {_B} -u somebody"),
        *(f"listAcl {_B}", f"getAcl {_B} -s User:somebody", "triggerLiteDispatch -p T1 -g CG1"),
        *(f"checkRocksdbCqWriteProgress {_C} -n {LOOPBACK}:9876",),
        *(f"checkRocksdbCqWriteProgress {_C} -n {LOOPBACK}:9876 -t T1",),
        *(
            "dumpCompactionLog",
            "dumpCompactionLog -f none",
            "exportMetadataInRocksDB -p none -t topics",
        ),
        *(
            f"rocksDBConfigToJson -t topics {_B}",
            f"rocksDBConfigToJson -t topics -n {LOOPBACK}:9876 {_C}",
        ),
        *(f"getBrokerLiteInfo {_B}", f"getBrokerLiteInfo {_C} -d", "getParentTopicInfo -p T1"),
        *("getLiteTopicInfo -p T1 -l a", "getLiteClientInfo -p T1 -g CG1 -c 10.0.0.7@c1"),
        *("getLiteGroupInfo -p T1 -g CG1", f"getControllerConfig -a {ADDRESS}"),
        *(f"getControllerMetaData -a {ADDRESS}", f"getSyncStateSet -a {ADDRESS} -b {BROKER}"),
        f"copyUser -f {ADDRESS} -t {ADDRESS}",
        f"copyAcl -f {ADDRESS} -t {ADDRESS}",
    )
    yield from (_read(line, "5") for line in lines)


def _of_offsets() -> Iterator[Case]:
    """Yield what sets offsets of groups: those of a served store are reput's own."""
    yield _read("cloneGroupOffset -s CG1 -d nobody2 -t T1 -o true")
    yield _read("cloneGroupOffset -s CG1 -d CGD -t T1 -o true")
    yield _read("consumerProgress -g CGD")
    yield _read("resetOffsetByTime -g CGP -t T1 -s -1")
    yield _read("resetOffsetByTime -g CGD -t T1 -s 0")
    yield _read("skipAccumulatedMessage -g CGD -t T1")
    yield _read("resetOffsetByTime -g CGD -t nobody -s 0")
    yield _read("consumerProgress -g CGD")


def _writes() -> Iterator[Case]:
    lines = (
        *(
            f"updateTopic -t New {_B}",
            f"updateTopic -t T1 {_C} -r 9 -w 9",
            f"deleteTopic -t T1 {_C}",
        ),
        *(f"updateTopicPerm -t T1 -p 2 {_B}", f"updateTopicPerm -t T1 -p 2 {_C}"),
        *(
            f"updateSubGroup -g New {_B}",
            f"updateSubGroup -g CG1 {_C}",
            f"deleteSubGroup -g CG1 {_B}",
        ),
        *(f"deleteSubGroup -g CGR {_C} -r true", f"updateBrokerConfig {_B} -k flushDiskType -v A"),
        *(f"updateBrokerConfig {_C} -k flushDiskType -v A", f"sendMsgStatus -b {BROKER} -c 1"),
        *("updateKvConfig -s a -k b -v c", "deleteKvConfig -s a -k b"),
        *(f"wipeWritePerm -b {BROKER}", f"addWritePerm -b {BROKER}"),
        *("updateOrderConf -t T1 -v b0:2 -m put", f"cleanExpiredCQ {_B}", f"cleanExpiredCQ {_C}"),
        *(f"deleteExpiredCommitLog {_B}", f"deleteExpiredCommitLog {_C}", f"cleanUnusedTopic {_B}"),
        *(
            f"cleanUnusedTopic {_C}",
            "checkMsgSendRT -t T1 -a 1 -s 10",
            "updateNamesrvConfig -k a -v b",
        ),
        *("sendMessage -t T1 -p body", "sendMessage -t T1 -p body -b b0 -i 0"),
    )
    yield from (Case(tuple(line.split()), writes=True) for line in lines)
    of_5 = (
        *(f"setConsumeMode {_B} -t T1 -g CG1 -m POP", f"resetMasterFlushOffset {_B} -o 0"),
        *(f"updateColdDataFlowCtrGroupConfig {_B} -g CG1 -v 1",),
        *(f"removeColdDataFlowCtrGroupConfig {_B} -g CG1", f"setCommitLogReadAheadMode {_B} -m 1"),
        *(f"createUser {_B} -u a -p b", f"updateUser {_B} -u a -p b", f"deleteUser {_B} -u a"),
        *(f"createAcl {_B} -s User:a -r Topic:T1 -a Pub -d Allow",),
        *(f"updateAcl {_B} -s User:a -r Topic:T1 -a Pub -d Allow", f"deleteAcl {_B} -s User:a"),
        *(f"switchTimerEngine {_B} -e F", f"exportPopRecord {_C} -d true"),
        *(f"updateStaticTopic -t T7 -qn 2 {_C}",),
        *(f"exportPopRecord {_B} -d true",),
    )
    yield from (Case(tuple(line.split()), writes=True, only="5") for line in of_5)
    of_4 = (
        *(f"updateAclConfig {_B} -a accesskey -s secretkey", f"deleteAclConfig {_B} -a accesskey"),
        *(f"updateGlobalWhiteAddr {_B} -g 10.0.0.1",),
    )
    yield from (Case(tuple(line.split()), writes=True, only="4") for line in of_4)
