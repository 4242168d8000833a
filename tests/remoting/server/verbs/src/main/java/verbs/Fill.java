package verbs;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages of all kinds, and groups that have consumed some of them. */
final class Fill {
    private static final String[] TAGS = {"TagA", "TagB", null, "TagC"};
    private static final int LATE = 18;

    private Fill() {}

    static void run(boolean is5) throws Exception {
        Clients.online();
        DefaultMQProducer producer = Clients.producer("PG1", "p2", "T1");
        for (int i = 0; i < 40; i++) {
            producer.send(message("T1", i), new MessageQueue("T1", "b0", i % 2));
        }
        List<Message> batch = new ArrayList<>();
        for (int i = 40; i < 43; i++) {
            batch.add(message("T1", i));
        }
        producer.send(batch, new MessageQueue("T1", "b0", 1));
        Message large = message("T1", 43);
        large.setBody("large ".repeat(1000).getBytes(StandardCharsets.UTF_8));
        producer.send(large, new MessageQueue("T1", "b0", 0));
        for (int i = 0; i < 6; i++) {
            producer.send(message("TG", i), new MessageQueue("TG", "b0", i % 2));
        }
        for (int i = 0; i < 10; i++) {
            producer.send(message("Fifo", i), new MessageQueue("Fifo", "b0", i % 2));
        }
        for (int i = 0; i < 3; i++) {
            Message late = message("Late", i);
            late.setDelayTimeLevel(LATE);
            producer.send(late);
        }
        if (is5) {
            Message timer = message("Late", 3);
            MessageAccessor.putProperty(timer, "TIMER_DELAY_SEC", "86400");
            producer.send(timer);
        }
        transactions();
        traced();
        retried(producer);
        Thread.sleep(4000);
        Clients.close();
        partly();
        // These nobody has consumed.
        DefaultMQProducer last = Clients.producer("PG1", "p3", "T1");
        for (int i = 44; i < 50; i++) {
            last.send(message("T1", i), new MessageQueue("T1", "b0", i % 2));
        }
        Clients.close();
    }

    private static void partly() throws Exception {
        DefaultMQPullConsumer consumer = Clients.puller();
        for (int queue = 0; queue < 2; queue++) {
            MessageQueue place = new MessageQueue("T1", "b0", queue);
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(place, 3 + queue, false);
        }
        Clients.close();
    }

    private static Message message(String topic, int number) {
        Message message = new Message(topic, ("body " + number).getBytes(StandardCharsets.UTF_8));
        message.setKeys("k" + number + " of" + topic);
        if (TAGS[number % TAGS.length] != null) {
            message.setTags(TAGS[number % TAGS.length]);
        }
        message.putUserProperty("a", Integer.toString(number));
        return message;
    }

    /** One that is committed, one that is rolled back, one of which nobody knows. */
    private static void transactions() throws Exception {
        TransactionMQProducer producer = Clients.configured(new TransactionMQProducer("PGTX"), "x1");
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object state) {
                return (LocalTransactionState) state;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        producer.start();
        LocalTransactionState[] states = LocalTransactionState.values();
        for (int i = 0; i < states.length; i++) {
            producer.sendMessageInTransaction(message("TX1", i), states[i]);
        }
        producer.shutdown();
    }

    private static void traced() throws Exception {
        DefaultMQProducer producer = Clients.configured(new DefaultMQProducer("PGM", true, null), "m1");
        producer.start();
        Message message = message("T9", 0);
        MessageAccessor.putProperty(message, "UNIQ_KEY", "TRACED0000000000000000000000000A");
        producer.send(message);
        Thread.sleep(1000);
        producer.shutdown();
    }

    /** One message that fails twice: it comes to the group's dead letters. */
    private static void retried(DefaultMQProducer producer) throws Exception {
        CountDownLatch failures = new CountDownLatch(4);
        Clients.Push failing = Clients.push("CGR", "r1", "R1", "*");
        failing.consumer.setMaxReconsumeTimes(1);
        failing.consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            messages.forEach(each -> failures.countDown());
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        failing.start();
        producer.send(message("R1", 0));
        producer.send(message("R1", 1));
        if (!failures.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the messages did not come again");
        }
    }
}
