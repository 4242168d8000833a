package cluster;

import com.alibaba.fastjson2.JSON;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.BrokerStartup;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * TakeOver conf=FILE store=DIR namesrv=HOST:PORT sample=N: a broker in this process on a store whose queues and
 * index somebody else made. It says {"loaded": true} when they are loaded and nothing is served yet, and goes on
 * at a line on standard input: a new group consumes everything, system topics are pulled queue by queue, a
 * sample is asked for by unique id, by key, by tag and by offset id. The last line is the report.
 */
public final class TakeOver {
    private static final String BROKER = "cluster-broker";
    private static final String CLUSTER = "cluster";
    private static final long SECOND = 1_000_000_000L;
    private static final long IDLE = 10 * SECOND;
    // More than one message has the same tag, and a query gives the newest only: any is right.
    private static final int TAGS_ASKED = 20;

    private final String nameServer;
    private final Map<String, Object> report = new LinkedHashMap<>();
    private final List<String> wrong = new ArrayList<>();
    private final Set<String> places = new HashSet<>();
    private final Map<String, Long> consumed = new TreeMap<>();
    private final List<MessageExt> sample = new ArrayList<>();
    private final int sampleSize;
    private final Random random = new Random(7);
    private long count;
    private long duplicates;
    private volatile long last;
    private DefaultMQAdminExt admin;

    private interface Query {
        List<MessageExt> ask() throws Exception;
    }

    private TakeOver(Options options) {
        nameServer = options.text("namesrv");
        sampleSize = options.number("sample");
    }

    public static void main(String[] args) throws Exception {
        int code = 0;
        try {
            Options options = new Options(args);
            new TakeOver(options).run(options);
        } catch (Throwable error) {
            error.printStackTrace();
            code = 1;
        }
        System.out.flush();
        // The broker's threads would keep the process.
        Runtime.getRuntime().halt(code);
    }

    private void run(Options options) throws Exception {
        Map<String, Long> inLog = LogScan.records(Path.of(options.text("store"), "commitlog"));
        BrokerController broker = BrokerStartup.buildBrokerController(
            BrokerStartup.parseCmdLine(new String[] {"-c", options.text("conf")}));
        if (!broker.initialize()) {
            throw new IllegalStateException("the broker does not load the store: see its logs");
        }
        long end = broker.getMessageStore().getMaxPhyOffset();
        System.out.println(JSON.toJSONString(Map.of("loaded", true, "log_end", end)));
        if (System.in.read() < 0) {
            throw new IllegalStateException("nobody says go");
        }
        broker.start();
        admin = new DefaultMQAdminExt("TakeOverAdmin", 30000);
        admin.setNamesrvAddr(nameServer);
        admin.start();
        while (admin.examineBrokerClusterInfo().getBrokerAddrTable().isEmpty()) {
            Thread.sleep(100);
        }
        consume(inLog);
        pull(inLog);
        query();
        report.put("log_end", end);
        report.put("log_end_after", broker.getMessageStore().getMaxPhyOffset());
        admin.shutdown();
        broker.shutdown();
        report.put("wrong", wrong.size());
        report.put("wrong_first", wrong.subList(0, Math.min(10, wrong.size())));
        report.put("done", true);
        System.out.println(JSON.toJSONString(report));
    }

    /** A push consumer of a new group, from the first offset, on every topic of a client. */
    private void consume(Map<String, Long> inLog) throws Exception {
        long expected = 0;
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("TakeOver" + System.currentTimeMillis());
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.setConsumeMessageBatchMaxSize(32);
        for (String topic : inLog.keySet()) {
            if (!Queues.isSystem(topic)) {
                consumer.subscribe(topic, "*");
                expected += inLog.get(topic);
            }
        }
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(this::see);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        last = System.nanoTime();
        consumer.start();
        while (seen() < expected && System.nanoTime() - last < IDLE) {
            Thread.sleep(50);
        }
        // One too many would come now.
        Thread.sleep(1000);
        consumer.shutdown();
        for (String topic : inLog.keySet()) {
            long had = consumed.getOrDefault(topic, 0L);
            if (!Queues.isSystem(topic) && had != inLog.get(topic)) {
                wrong.add(topic + ": " + had + " consumed, " + inLog.get(topic) + " in the log");
            }
        }
        report.put("records", inLog.values().stream().mapToLong(Long::longValue).sum());
        report.put("expected", expected);
        report.put("consumed", count);
        report.put("duplicates", duplicates);
    }

    private synchronized long seen() {
        return count;
    }

    private synchronized void see(MessageExt message) {
        last = System.nanoTime();
        count++;
        consumed.merge(message.getTopic(), 1L, Long::sum);
        String place = message.getTopic() + " " + message.getQueueId() + " " + message.getQueueOffset();
        if (!places.add(place)) {
            duplicates++;
        }
        if (!Messages.isRight(message)) {
            wrong.add(place + ": not the body that was sent");
        }
        // Each message is in the sample with the same chance.
        if (sample.size() < sampleSize) {
            sample.add(message);
        } else {
            long at = random.nextLong(count);
            if (at < sampleSize) {
                sample.set((int) at, message);
            }
        }
    }

    private void pull(Map<String, Long> inLog) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("TakeOverPull");
        consumer.setNamesrvAddr(nameServer);
        consumer.start();
        Map<String, Long> pulled = new TreeMap<>();
        for (var topic : Queues.of(admin).entrySet()) {
            if (!Queues.isSystem(topic.getKey())) {
                continue;
            }
            for (var queue : topic.getValue().entrySet()) {
                long[] offsets = queue.getValue();
                MessageQueue name = new MessageQueue(topic.getKey(), BROKER, queue.getKey());
                pulled.merge(topic.getKey(), pull(consumer, name, offsets[0], offsets[1]), Long::sum);
            }
        }
        consumer.shutdown();
        for (String topic : inLog.keySet()) {
            long had = pulled.getOrDefault(topic, 0L);
            if (Queues.isSystem(topic) && had != inLog.get(topic)) {
                wrong.add(topic + ": " + had + " pulled, " + inLog.get(topic) + " in the log");
            }
        }
        report.put("pulled", pulled);
    }

    private long pull(DefaultMQPullConsumer consumer, MessageQueue queue, long begin, long end) {
        long had = 0;
        long offset = begin;
        try {
            while (offset < end) {
                PullResult result = consumer.pull(queue, "*", offset, 32);
                if (result.getPullStatus() != PullStatus.FOUND) {
                    wrong.add(queue + " at " + offset + ": " + result);
                    break;
                }
                for (MessageExt message : result.getMsgFoundList()) {
                    if (message.getQueueOffset() != offset || !message.getTopic().equals(queue.getTopic())) {
                        wrong.add(queue + " at " + offset + ": " + message);
                    }
                    offset++;
                    had++;
                }
            }
        } catch (Exception error) {
            wrong.add(queue + " at " + offset + ": " + error);
        }
        return had;
    }

    private void query() {
        int byId = 0;
        int byKey = 0;
        int byTag = 0;
        int byOffset = 0;
        int tagsAsked = 0;
        for (MessageExt one : sample) {
            String topic = one.getTopic();
            String key = Messages.key(one);
            byId += found("id " + one.getMsgId(), one, () -> list(
                admin.queryMessageByUniqKey(CLUSTER, topic, one.getMsgId(), 32, 0, Long.MAX_VALUE)));
            byKey += found("key " + key, one, () -> list(admin.queryMessage(topic, key, 64, 0, Long.MAX_VALUE)));
            byOffset += found("offset of " + key, one, () -> List.of(
                admin.viewMessage(topic, org.apache.rocketmq.common.message.MessageDecoder.createMessageId(
                    one.getStoreHost(), one.getCommitLogOffset()))));
            if (one.getTags() != null && tagsAsked < TAGS_ASKED) {
                tagsAsked++;
                byTag += found("tag " + one.getTags(), null, () -> list(
                    admin.queryMessage(CLUSTER, topic, one.getTags(), 64, 0, Long.MAX_VALUE, "T", null)));
            }
        }
        report.put("asked", sample.size());
        report.put("found_by_id", byId);
        report.put("found_by_key", byKey);
        report.put("found_by_offset", byOffset);
        report.put("tags_asked", tagsAsked);
        report.put("found_by_tag", byTag);
    }

    private static List<MessageExt> list(QueryResult result) {
        return result.getMessageList();
    }

    /** 1 if the answer has that message (any, for null), else 0 and a line in the report. */
    private int found(String what, MessageExt wanted, Query query) {
        String why = "not in the answer";
        try {
            for (MessageExt message : query.ask()) {
                if (wanted == null || message.getQueueId() == wanted.getQueueId()
                    && message.getQueueOffset() == wanted.getQueueOffset()
                    && Arrays.equals(message.getBody(), wanted.getBody())) {
                    return 1;
                }
            }
        } catch (Exception error) {
            why = error.toString();
        }
        wrong.add(what + ": " + why);
        return 0;
    }
}
