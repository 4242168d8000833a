package oracle;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A stock consumer that writes what it gets of each message, in a fixed number of bytes, before it
 * says that it has consumed it: NAMESRV WAY TOPIC GROUP EXPRESSION FILE INSTANCE RATE TIME. It says
 * "started" and, at the end of standard input, closes in order. tests/remoting/consuming describes
 * the ways and reads the file.
 */
public final class Take {
    private static final int SIZE = 40;
    private static final long IDLE = 120;

    private final String names, way, topic, group, wanted, instance;
    private final FileChannel file;
    private final double rate;
    private final long time;
    private long due = System.nanoTime();
    private short phase;

    private Take(String[] args) throws IOException {
        names = args[0];
        way = args[1];
        topic = args[2];
        group = args[3];
        wanted = args[4];
        file = new FileOutputStream(args[5], true).getChannel();
        instance = args[6];
        rate = Double.parseDouble(args[7]);
        time = Long.parseLong(args[8]);
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("rocketmq.client.logUseSlf4j", "true");
        try {
            AutoCloseable consumer = new Take(args).begin();
            while (System.in.read() >= 0) {
                // Its end is the order to close.
            }
            consumer.close();
        } catch (Exception error) {
            // Threads of a client that did not start would keep this alive.
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private AutoCloseable begin() throws Exception {
        return switch (way) {
            case "lite-subscribe" -> lite();
            case "lite-assign" -> assigned();
            case "pull" -> pulled();
            default -> push();
        };
    }

    private static void started() {
        System.out.println("started");
    }

    /** Writes messages, and waits as long as the rate asks for. */
    private synchronized void write(Collection<MessageExt> messages) {
        ByteBuffer rows = ByteBuffer.allocate(SIZE * messages.size());
        long now = System.currentTimeMillis();
        for (MessageExt each : messages) {
            rows.putLong(now).putLong(each.getCommitLogOffset()).putLong(each.getQueueOffset());
            rows.putInt(each.getQueueId()).putInt(crc(each.getBody())).putInt(crc(facts(each)));
            rows.putShort((short) each.getReconsumeTimes()).putShort(phase);
        }
        rows.flip();
        try {
            while (rows.hasRemaining()) {
                file.write(rows);
            }
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        pace(messages.size());
    }

    private void pace(int count) {
        if (rate <= 0) {
            return;
        }
        long now = System.nanoTime();
        due = Math.max(due, now - TimeUnit.MILLISECONDS.toNanos(100)) + (long) (count * 1e9 / rate);
        try {
            TimeUnit.NANOSECONDS.sleep(due - now > 2_000_000 ? due - now : 0);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static int crc(byte[] bytes) {
        CRC32 sum = new CRC32();
        sum.update(bytes);
        return (int) sum.getValue();
    }

    private static byte[] facts(MessageExt each) {
        String id = each instanceof MessageClientExt ext ? ext.getOffsetMsgId() : each.getMsgId();
        return (each.getTags() + "\n" + each.getKeys() + "\n" + each.getMsgId() + "\n"
                        + each.getUserProperty("a") + "\n" + each.getBornTimestamp() + "\n"
                        + each.getStoreTimestamp() + "\n" + id)
                .getBytes(StandardCharsets.UTF_8);
    }

    private AutoCloseable push() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (way.equals("sql92")) {
            consumer.subscribe(topic, MessageSelector.bySql(wanted));
        } else {
            consumer.subscribe(topic, wanted);
        }
        if (way.equals("broadcasting")) {
            Compat.broadcast(consumer);
        }
        if (way.equals("orderly")) {
            consumer.registerMessageListener(
                    (MessageListenerOrderly)
                            (messages, context) -> {
                                write(messages);
                                return ConsumeOrderlyStatus.SUCCESS;
                            });
        } else {
            // With one thread messages of a queue are consumed in the order in which they come.
            consumer.setConsumeThreadMin(1);
            consumer.setConsumeThreadMax(1);
            consumer.registerMessageListener(
                    (MessageListenerConcurrently)
                            (messages, context) -> {
                                write(messages);
                                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                            });
        }
        consumer.start();
        started();
        return consumer::shutdown;
    }

    private DefaultLitePullConsumer made() {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    private AutoCloseable lite() throws Exception {
        DefaultLitePullConsumer consumer = made();
        consumer.subscribe(topic, wanted);
        consumer.start();
        started();
        Thread poller = new Thread(() -> {
            while (!Thread.interrupted()) {
                List<MessageExt> messages = consumer.poll(200);
                if (!messages.isEmpty()) {
                    write(messages);
                }
            }
        });
        poller.start();
        return () -> {
            poller.interrupt();
            poller.join(5000);
            consumer.shutdown();
        };
    }

    /** All queues in whole, then each from its middle on, then from a time on. */
    private AutoCloseable assigned() throws Exception {
        DefaultLitePullConsumer consumer = made();
        consumer.start();
        started();
        List<MessageQueue> queues = new ArrayList<>(consumer.fetchMessageQueues(topic));
        queues.sort(Comparator.naturalOrder());
        consumer.assign(queues);
        Map<MessageQueue, Long> ends = new HashMap<>();
        for (MessageQueue queue : queues) {
            consumer.seekToEnd(queue);
            ends.put(queue, consumer.offsetForTimestamp(queue, Long.MAX_VALUE >> 8));
            consumer.seekToBegin(queue);
        }
        poll(consumer, ends);
        for (phase = 1; phase <= 2; phase++) {
            for (MessageQueue queue : queues) {
                long at = phase == 1 ? ends.get(queue) / 2 : consumer.offsetForTimestamp(queue, time);
                consumer.seek(queue, at);
            }
            poll(consumer, ends);
        }
        return consumer::shutdown;
    }

    /** Polls until each queue's last message has come. */
    private void poll(DefaultLitePullConsumer consumer, Map<MessageQueue, Long> ends) {
        Map<Integer, Long> open = new HashMap<>();
        ends.forEach((queue, end) -> open.put(queue.getQueueId(), end));
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(IDLE);
        while (!open.isEmpty() && System.nanoTime() < until) {
            List<MessageExt> messages = consumer.poll(200);
            if (messages.isEmpty()) {
                continue;
            }
            until = System.nanoTime() + TimeUnit.SECONDS.toNanos(IDLE);
            write(messages);
            for (MessageExt each : messages) {
                open.remove(each.getQueueId(), each.getQueueOffset() + 1);
            }
        }
    }

    /** All queues in whole, then each from its middle on, then from a time on. */
    private AutoCloseable pulled() throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName(instance);
        consumer.start();
        started();
        List<MessageQueue> queues = new ArrayList<>(consumer.fetchSubscribeMessageQueues(topic));
        queues.sort(Comparator.naturalOrder());
        for (phase = 0; phase <= 2; phase++) {
            for (MessageQueue queue : queues) {
                long end = consumer.maxOffset(queue);
                long at = consumer.minOffset(queue);
                if (phase > 0) {
                    // As a program does that keeps how far it is at the broker.
                    consumer.updateConsumeOffset(
                            queue, phase == 1 ? end / 2 : consumer.searchOffset(queue, time));
                    at = consumer.fetchConsumeOffset(queue, false);
                }
                while (at < end) {
                    PullResult result = consumer.pullBlockIfNotFound(queue, wanted, at, 32);
                    if (result.getMsgFoundList() != null) {
                        write(result.getMsgFoundList());
                    }
                    at = result.getNextBeginOffset();
                }
            }
        }
        return consumer::shutdown;
    }
}
