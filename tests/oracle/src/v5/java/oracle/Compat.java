package oracle;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.logging.ch.qos.logback.classic.Level;
import org.apache.rocketmq.logging.ch.qos.logback.classic.Logger;
import org.apache.rocketmq.logging.ch.qos.logback.classic.spi.ILoggingEvent;
import org.apache.rocketmq.logging.ch.qos.logback.core.AppenderBase;
import org.apache.rocketmq.logging.org.slf4j.LoggerFactory;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.logfile.MappedFile;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** What differs between RocketMQ 4.9.x and 5.x, 5.x side. */
final class Compat {
    static final boolean V5 = true;

    static final class Msg extends MessageExtBrokerInner { }

    private Compat() { }

    /**
     * 5.x dispatches the log while recovering it (load()), and reput then has nothing left. With
     * reputOnly, recovery only validates, and start() sends ReputMessageService back to the log's
     * beginning (recheckReputOffsetFromCq), so that all of the dispatch is its own.
     */
    static DefaultMessageStore open(MessageStoreConfig sc, BrokerConfig bc, ConcurrentMap<String, TopicConfig> topics,
        SystemClock clock, boolean reputOnly) throws Exception {
        BrokerStatsManager stats = new BrokerStatsManager(bc.getBrokerClusterName(), true);
        if (reputOnly) {
            sc.setRecheckReputOffsetFromCq(true);
        }
        return new DefaultMessageStore(sc, stats, (t, q, l, tag, ts, bm, p) -> { }, bc, topics) {
            @Override
            public void onCommitLogDispatch(DispatchRequest r, boolean doDispatch, MappedFile f, boolean isRecover,
                boolean isFileEnd) {
                if (!reputOnly) {
                    try {
                        super.onCommitLogDispatch(r, doDispatch, f, isRecover, isFileEnd);
                    } catch (Exception e) { // RocksDBException, which a file queue does not throw
                        throw new IllegalStateException(e);
                    }
                }
            }

            @Override
            public long dispatchBehindBytes() {
                return Kit.behind(super::dispatchBehindBytes);
            }

            @Override
            public SystemClock getSystemClock() {
                return clock;
            }
        };
    }

    /** A whole batch as one record, as SendMessageProcessor stores it in a BatchCQ topic. */
    static PutMessageResult putInnerBatch(DefaultMessageStore store, MessageExtBatch batch) {
        batch.setInnerBatch(true);
        batch.setPropertiesString(MessageDecoder.messageProperties2String(batch.getProperties()));
        return store.putMessage(batch);
    }

    static boolean truncate(DefaultMessageStore store, long offset) throws Exception {
        return store.truncateFiles(offset);
    }

    static void setQueueType(TopicConfig topic, String type) {
        topic.getAttributes().put("queue.type", type);
    }

    /** topics.json, as TopicConfigManager.encode writes it. */
    static String encodeTopics(ConcurrentMap<String, TopicConfig> topics) {
        TopicConfigSerializeWrapper w = new TopicConfigSerializeWrapper();
        w.setTopicConfigTable(topics);
        w.setDataVersion(new DataVersion());
        return w.toJson(true);
    }

    static Map<String, TopicConfig> decodeTopics(String json) {
        return TopicConfigSerializeWrapper.fromJson(json, TopicConfigSerializeWrapper.class).getTopicConfigTable();
    }

    /** Every queue the store has, by topic. */
    static Map<String, Set<Integer>> queues(DefaultMessageStore store) {
        Map<String, Set<Integer>> found = new TreeMap<>();
        store.getConsumeQueueTable().forEach((topic, table) -> found.put(topic, new TreeSet<>(table.keySet())));
        return found;
    }

    /** type: LOWER, UPPER, or - for the call that takes none. */
    static long offsetByTime(DefaultMessageStore store, String topic, int queue, long time, String type) {
        return type.equals("-") ? store.getOffsetInQueueByTime(topic, queue, time)
            : store.getOffsetInQueueByTime(topic, queue, time, BoundaryType.valueOf(type));
    }

    static SubscriptionData subscription(String topic, String tags) throws Exception {
        return FilterAPI.buildSubscriptionData(topic, tags);
    }

    /** Collects what the store logs at WARN and above, instead of printing it. */
    static void capture(List<String> lines) {
        AppenderBase<ILoggingEvent> appender = new AppenderBase<>() {
            @Override
            protected void append(ILoggingEvent e) {
                if (e.getLevel().isGreaterOrEqual(Level.WARN)) {
                    synchronized (lines) {
                        lines.add(e.getLevel() + " " + e.getFormattedMessage()
                            + (e.getThrowableProxy() == null ? "" : " " + e.getThrowableProxy().getClassName()
                            + ": " + e.getThrowableProxy().getMessage()));
                    }
                }
            }
        };
        Logger root = (Logger) LoggerFactory.getLogger(Logger.ROOT_LOGGER_NAME);
        root.detachAndStopAllAppenders();
        root.setLevel(Level.WARN);
        appender.setContext(root.getLoggerContext());
        appender.start();
        root.addAppender(appender);
    }

    static void broadcast(DefaultMQPushConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }
}
