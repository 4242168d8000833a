package oracle;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A stock consumer. It writes a line for each message, and ends once it has some number of them, or
 * its time is over: NAMESRV KIND TOPIC GROUP EXPRESSION COUNT SECONDS FILE, where KIND is push,
 * orderly, broadcasting, sql or lite.
 */
public final class Consume {
    private static final BlockingQueue<MessageExt> TAKEN = new LinkedBlockingQueue<>();

    private Consume() {}

    public static void main(String[] args) throws Exception {
        System.setProperty("rocketmq.client.logUseSlf4j", "true");
        String names = args[0], kind = args[1], topic = args[2], group = args[3], wanted = args[4];
        int count = Integer.parseInt(args[5]);
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(args[6]));
        AutoCloseable consumer =
                kind.equals("lite")
                        ? lite(names, topic, group, wanted, until, count)
                        : push(names, kind, topic, group, wanted);
        StringBuilder lines = new StringBuilder();
        for (int taken = 0; taken < count; taken++) {
            MessageExt each = TAKEN.poll(until - System.nanoTime(), TimeUnit.NANOSECONDS);
            if (each == null) {
                break;
            }
            lines.append(each.getQueueId()).append(' ').append(each.getQueueOffset());
            lines.append(' ').append(each.getCommitLogOffset()).append(' ').append(each.getTags());
            lines.append(' ').append(each.getBody().length).append('\n');
        }
        // What comes twice comes within this.
        Thread.sleep(500);
        for (MessageExt more : TAKEN) {
            lines.append(more.getQueueId()).append(' ').append(more.getQueueOffset()).append(" more\n");
        }
        Files.writeString(Path.of(args[7]), lines);
        consumer.close();
        System.exit(0);
    }

    private static AutoCloseable push(
            String names, String kind, String topic, String group, String wanted) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName("i" + ProcessHandle.current().pid());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (kind.equals("sql")) {
            consumer.subscribe(topic, MessageSelector.bySql(wanted));
        } else {
            consumer.subscribe(topic, wanted);
        }
        if (kind.equals("broadcasting")) {
            Compat.broadcast(consumer);
        }
        if (kind.equals("orderly")) {
            consumer.registerMessageListener(
                    (MessageListenerOrderly)
                            (messages, context) -> {
                                TAKEN.addAll(messages);
                                return ConsumeOrderlyStatus.SUCCESS;
                            });
        } else {
            consumer.registerMessageListener(
                    (MessageListenerConcurrently)
                            (messages, context) -> {
                                TAKEN.addAll(messages);
                                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                            });
        }
        consumer.start();
        return consumer::shutdown;
    }

    private static AutoCloseable lite(
            String names, String topic, String group, String wanted, long until, int count)
            throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, wanted);
        consumer.start();
        int taken = 0;
        while (taken < count && System.nanoTime() < until) {
            List<MessageExt> messages = consumer.poll(500);
            TAKEN.addAll(messages);
            taken += messages.size();
        }
        return consumer::shutdown;
    }
}
