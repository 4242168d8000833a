package oracle;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * A stock push consumer with its own settings. It takes a number of messages, and prints how many it
 * got and the seconds from the first to the last: NAMESRV TOPIC GROUP COUNT SECONDS.
 */
public final class Drain {
    private Drain() {}

    public static void main(String[] args) throws Exception {
        System.setProperty("rocketmq.client.logUseSlf4j", "true");
        long count = Long.parseLong(args[3]);
        AtomicLong taken = new AtomicLong(), first = new AtomicLong(), last = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setInstanceName("i" + ProcessHandle.current().pid());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[1], "*");
        consumer.registerMessageListener(
                (MessageListenerConcurrently)
                        (messages, context) -> {
                            first.compareAndSet(0, System.nanoTime());
                            if (taken.addAndGet(messages.size()) >= count) {
                                last.compareAndSet(0, System.nanoTime());
                                done.countDown();
                            }
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        consumer.start();
        done.await(Long.parseLong(args[4]), TimeUnit.SECONDS);
        System.out.println(taken.get() + " " + (last.get() - first.get()) / 1e9);
        consumer.shutdown();
        System.exit(0);
    }
}
