package oracle;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A stock push consumer that fails at every message whose key begins with "bad", and so sends it
 * back. It writes a line for each message that it gets: NAMESRV KIND TOPIC GROUP LEVEL MOST COUNT
 * SECONDS FILE, where KIND is concurrent or orderly, LEVEL the delay that it asks for, MOST how
 * often a message is tried again, and COUNT the lines after which it ends.
 */
public final class SendBack {
    private static final BlockingQueue<String> LINES = new LinkedBlockingQueue<>();

    private SendBack() {}

    public static void main(String[] args) throws Exception {
        System.setProperty("rocketmq.client.logUseSlf4j", "true");
        int level = Integer.parseInt(args[4]);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[3]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setInstanceName("i" + ProcessHandle.current().pid());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(Integer.parseInt(args[5]));
        consumer.setPollNameServerInterval(1000);
        consumer.subscribe(args[2], "*");
        if (args[1].equals("orderly")) {
            consumer.setSuspendCurrentQueueTimeMillis(50);
            consumer.registerMessageListener(
                    (MessageListenerOrderly)
                            (messages, context) -> {
                                messages.forEach(SendBack::take);
                                return messages.stream().anyMatch(SendBack::isBad)
                                        ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                                        : ConsumeOrderlyStatus.SUCCESS;
                            });
        } else {
            consumer.registerMessageListener(
                    (MessageListenerConcurrently)
                            (messages, context) -> {
                                context.setDelayLevelWhenNextConsume(level);
                                messages.forEach(SendBack::take);
                                return messages.stream().anyMatch(SendBack::isBad)
                                        ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                                        : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                            });
        }
        consumer.start();
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(args[7]));
        Path file = Path.of(args[8]);
        for (int taken = 0; taken < Integer.parseInt(args[6]); taken++) {
            String line = LINES.poll(until - System.nanoTime(), TimeUnit.NANOSECONDS);
            if (line == null) {
                break;
            }
            Files.writeString(file, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
        // What was done with the last one is told to the broker meanwhile.
        Thread.sleep(1000);
        consumer.shutdown();
        System.exit(0);
    }

    private static boolean isBad(MessageExt message) {
        return message.getKeys().startsWith("bad");
    }

    private static void take(MessageExt each) {
        LINES.add(
                String.join(
                                "\t",
                                each.getKeys(),
                                Integer.toString(each.getReconsumeTimes()),
                                Long.toString(System.currentTimeMillis()),
                                Long.toString(each.getBornTimestamp()),
                                new String(each.getBody(), java.nio.charset.StandardCharsets.UTF_8),
                                each.getMsgId(),
                                each.getTopic(),
                                each.getProperties().toString())
                        + "\n");
    }
}
