package verbs;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** Members of groups, of each kind; their ids are the same in every run. */
final class Clients {
    private static final List<AutoCloseable> OPEN = new ArrayList<>();
    static final AtomicInteger TAKEN = new AtomicInteger();

    private Clients() {}

    /** Those that are there while a server is asked. */
    static void online() throws Exception {
        push("CG1", "c1", "T1", "TagA || TagB").start();
        push("CG1", "c2", "T1", "TagA || TagB").start();
        push("CGU", "u1", "T1", "*").suspendedStart();
        Push sql = push("CGS", "s1", "T1", null);
        sql.consumer.subscribe("T1", MessageSelector.bySql("a > 5 AND TAGS IS NOT NULL"));
        sql.start();
        push("CGT", "t1", "T1", "*").also("TG", "TagA").start();
        push("GCG", "g1", "TG", "*").start();
        Push broadcasting = push("CGB", "b1", "TG", "*");
        broadcast(broadcasting.consumer);
        broadcasting.start();
        push("CGO", "o1", "Fifo", "*").orderly().start();
        lite("CGL", "l1", "T1");
        puller();
        producer("PG1", "p1", "T1");
    }

    static void close() throws Exception {
        for (AutoCloseable each : OPEN) {
            each.close();
        }
        OPEN.clear();
    }

    static <T extends ClientConfig> T configured(T client, String instance) {
        client.setClientIP("10.0.0.7");
        client.setInstanceName(instance);
        client.setPersistConsumerOffsetInterval(1000);
        client.setPollNameServerInterval(3000);
        client.setHeartbeatBrokerInterval(2000);
        return client;
    }

    static Push push(String group, String instance, String topic, String wanted) throws Exception {
        Push made = new Push(configured(new DefaultMQPushConsumer(group), instance));
        return wanted == null ? made : made.also(topic, wanted);
    }

    private static void lite(String group, String instance, String topic) throws Exception {
        DefaultLitePullConsumer consumer = configured(new DefaultLitePullConsumer(group), instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommitIntervalMillis(1000);
        consumer.subscribe(topic, "*");
        consumer.start();
        AtomicBoolean reads = new AtomicBoolean(true);
        Thread reader = new Thread(() -> {
            while (reads.get()) {
                TAKEN.addAndGet(consumer.poll(200).size());
            }
        });
        reader.setDaemon(true);
        reader.start();
        OPEN.add(() -> {
            // A consumer that is shut down refuses to be polled.
            reads.set(false);
            reader.join();
            consumer.shutdown();
        });
    }

    /** It pulls nothing by itself, and tells the broker that it is there. */
    static DefaultMQPullConsumer puller() throws Exception {
        DefaultMQPullConsumer consumer = configured(new DefaultMQPullConsumer("CGP"), "l2");
        consumer.setRegisterTopics(Set.of("T1"));
        consumer.start();
        consumer.fetchSubscribeMessageQueues("T1");
        OPEN.add(consumer::shutdown);
        return consumer;
    }

    static DefaultMQProducer producer(String group, String instance, String topic) throws Exception {
        DefaultMQProducer producer = configured(new DefaultMQProducer(group), instance);
        producer.start();
        OPEN.add(producer::shutdown);
        try {
            producer.fetchPublishMessageQueues(topic);
        } catch (MQClientException notWritable) {
            // It knows the broker now, and heartbeats go there.
        }
        return producer;
    }

    /** MessageModel is in another package in each line of releases. */
    private static void broadcast(DefaultMQPushConsumer consumer) throws Exception {
        Class<?> model = consumer.getMessageModel().getClass();
        Object value = model.getField("BROADCASTING").get(null);
        DefaultMQPushConsumer.class.getMethod("setMessageModel", model).invoke(consumer, value);
    }

    /** A push consumer before it starts. */
    static final class Push {
        final DefaultMQPushConsumer consumer;
        private boolean isOrderly;

        private Push(DefaultMQPushConsumer consumer) {
            this.consumer = consumer;
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setConsumeThreadMin(1);
            consumer.setConsumeThreadMax(1);
        }

        Push also(String topic, String wanted) throws Exception {
            consumer.subscribe(topic, wanted);
            return this;
        }

        Push orderly() {
            isOrderly = true;
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                TAKEN.addAndGet(messages.size());
                return ConsumeOrderlyStatus.SUCCESS;
            });
            return this;
        }

        void suspendedStart() throws Exception {
            consumer.suspend();
            start();
        }

        void start() throws Exception {
            if (!isOrderly && consumer.getMessageListener() == null) {
                consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                    TAKEN.addAndGet(messages.size());
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                });
            }
            consumer.start();
            OPEN.add(consumer::shutdown);
        }
    }
}
