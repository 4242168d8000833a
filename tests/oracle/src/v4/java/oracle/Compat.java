package oracle;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.DataVersion;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.filter.FilterAPI;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.common.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.store.CommitLog;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MappedFileQueue;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;
import org.slf4j.LoggerFactory;

/** What differs between RocketMQ 4.9.x and 5.x, 4.9.x side. */
final class Compat {
    static final boolean V5 = false;

    static final class Msg extends MessageExtBrokerInner { }

    private Compat() { }

    /** 4.9's recovery of a cleanly closed log never dispatches: reput always does the whole work. */
    static DefaultMessageStore open(MessageStoreConfig sc, BrokerConfig bc, ConcurrentMap<String, TopicConfig> topics,
        SystemClock clock, boolean reputOnly) throws Exception {
        BrokerStatsManager stats = new BrokerStatsManager(bc.getBrokerClusterName(), true);
        return new DefaultMessageStore(sc, stats, (t, q, l, tag, ts, bm, p) -> { }, bc) {
            /** In 4.9 the store itself would deliver delayed messages, a second after start. */
            @Override
            public void handleScheduleMessageService(BrokerRole role) {
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

    static PutMessageResult putInnerBatch(DefaultMessageStore store, MessageExtBatch batch) {
        throw new UnsupportedOperationException("4.9 has no inner batches");
    }

    /** 4.9 has no truncateFiles: what that does in 5.x, step by step. */
    static boolean truncate(DefaultMessageStore store, long offset) throws Exception {
        Field service = DefaultMessageStore.class.getDeclaredField("reputMessageService");
        service.setAccessible(true);
        Object reput = service.get(store);
        Field files = CommitLog.class.getDeclaredField("mappedFileQueue");
        files.setAccessible(true);
        ((MappedFileQueue) files.get(store.getCommitLog())).truncateDirtyFiles(offset);
        Field from = reput.getClass().getDeclaredField("reputFromOffset");
        from.setAccessible(true);
        from.set(reput, offset);
        store.truncateDirtyLogicFiles(offset);
        store.recoverTopicQueueTable();
        return true;
    }

    static void setQueueType(TopicConfig topic, String type) {
        throw new UnsupportedOperationException("4.9 has one type of queue only");
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

    /** 4.9 has no types. */
    static long offsetByTime(DefaultMessageStore store, String topic, int queue, long time, String type) {
        return store.getOffsetInQueueByTime(topic, queue, time);
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
