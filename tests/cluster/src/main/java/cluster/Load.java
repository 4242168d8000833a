package cluster;

import com.alibaba.fastjson2.JSON;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Load namesrv=HOST:PORT broker=HOST:PORT seconds=N rate=N batch=N settle=N: all kinds of messages at so many
 * a second, then so many seconds in which the delayed, checked and repeated ones come. It lives through a
 * broker that goes and comes back, and does not end before standard input does. A JSON line a second; the last one
 * has "queues", what the broker says of them.
 */
public final class Load {
    private static final int QUEUES = 4;
    private static final int BULK_THREADS = 4;
    private static final long SECOND = 1_000_000_000L;
    // Failures that are printed; while a broker is away there are many, all the same.
    private static final int TOLD = 200;
    // What a transaction's first answer is, and what the broker hears when it checks back.
    private static final String[] PLANS = {"CC", "CC", "CC", "RR", "UC", "UR"};

    private final AtomicLong acknowledged = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private final AtomicLong checkedBack = new AtomicLong();
    private final AtomicLong repeated = new AtomicLong();
    private final AtomicLong[] numbers = new AtomicLong[Messages.TOPICS.length];
    private final String session = Long.toString(System.currentTimeMillis(), 36);
    private final String nameServer;
    private long begin;
    private long end;
    /** Nobody has anything to do under this load any more. */
    private volatile boolean released;
    private final List<Thread> threads = new ArrayList<>();

    private interface Send {
        SendResult send() throws Exception;
    }

    private interface Step {
        void run() throws Exception;
    }

    private Load(Options options) throws Exception {
        nameServer = options.text("namesrv");
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = new AtomicLong();
        }
        createTopics(options.text("broker"));
    }

    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        int code = 0;
        try {
            new Load(options).run(options);
        } catch (Throwable error) {
            error.printStackTrace();
            code = 1;
        }
        System.out.flush();
        // The client's threads would keep the process.
        Runtime.getRuntime().halt(code);
    }

    private void run(Options options) throws Exception {
        int rate = options.number("rate");
        int batch = options.number("batch");
        DefaultMQProducer producer = start(new DefaultMQProducer("ClusterProducer"));
        TransactionMQProducer transactions = new TransactionMQProducer("ClusterTransactions");
        transactions.setTransactionListener(new Answers());
        start(transactions);
        DefaultMQPushConsumer consumer = consumer();
        begin = System.nanoTime();
        producer.send(next(0));
        acknowledged.incrementAndGet();
        report(null);
        if (System.in.read() < 0) {
            throw new IllegalStateException("nobody says go");
        }
        begin = System.nanoTime();
        end = begin + options.number("seconds") * SECOND;
        Thread reader = new Thread(this::waitForRelease);
        reader.setDaemon(true);
        reader.start();
        int plain = Math.min(rate / 4, 500);
        int special = Math.min(rate / 40, 50);
        loop(2, plain, 1, () -> producer.send(next(0)));
        for (int thread = 0; thread < BULK_THREADS; thread++) {
            loop(1, (rate - plain - 3 * special) / (double) BULK_THREADS, batch, () -> producer.send(next(1, batch)));
        }
        loop(1, special, 1, () -> {
            Message message = next(2);
            message.setDelayTimeLevel(1 + (int) (numbers[2].get() % 2));
            return producer.send(message);
        });
        loop(2, special, 1, () -> {
            Message message = next(3);
            message.putUserProperty("plan", PLANS[(int) (numbers[3].get() % PLANS.length)]);
            return transactions.sendMessageInTransaction(message, null);
        });
        loop(1, special, 1, () -> producer.send(next(4)));
        while (threads.stream().anyMatch(Thread::isAlive)) {
            Thread.sleep(1000);
            report(null);
        }
        Thread.sleep(options.number("settle") * 1000L);
        Map<String, Map<String, Long>> queues = queues();
        consumer.shutdown();
        producer.shutdown();
        transactions.shutdown();
        report(queues);
    }

    /** A broker may take longer to start than all the seconds of a load: it ends when told, not before. */
    private void waitForRelease() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException error) {
            System.err.println(error);
        }
        released = true;
    }

    /** Threads that send until the end, together at `rate` messages a second, `size` at a time. */
    private void loop(int count, double rate, int size, Send send) {
        long interval = (long) (SECOND * (double) size * count / rate);
        for (int i = 0; i < count; i++) {
            long first = System.nanoTime() + i * interval / count;
            Thread thread = new Thread(() -> pace(first, interval, size, send));
            thread.start();
            threads.add(thread);
        }
    }

    private void pace(long first, long interval, int size, Send send) {
        long due = first;
        while (!released || due < end && System.nanoTime() < end) {
            try {
                long wait = due - System.nanoTime();
                if (wait > 0) {
                    Thread.sleep(wait / 1_000_000, (int) (wait % 1_000_000));
                }
                // After a pause of the broker no more than a few seconds are made up for.
                due = Math.max(due + interval, System.nanoTime() - 5 * SECOND);
                SendResult result = send.send();
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    acknowledged.addAndGet(size);
                } else {
                    failed.addAndGet(size);
                }
            } catch (Exception error) {
                if (failed.getAndAdd(size) < TOLD) {
                    System.err.println(error);
                }
                sleep(100);
            }
        }
    }

    private Message next(int topic) {
        return Messages.message(Messages.TOPICS[topic], session, numbers[topic].getAndIncrement());
    }

    private List<Message> next(int topic, int count) {
        List<Message> messages = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            messages.add(next(topic));
        }
        return messages;
    }

    private <T extends DefaultMQProducer> T start(T producer) throws Exception {
        configure(producer);
        producer.setSendMsgTimeout(5000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        return producer;
    }

    /** Each message fails once and is right the second time. */
    private DefaultMQPushConsumer consumer() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(Messages.GROUP);
        configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.subscribe(Messages.RETRY, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            if (messages.get(0).getReconsumeTimes() == 0) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            repeated.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    private void configure(ClientConfig client) {
        client.setNamesrvAddr(nameServer);
        client.setInstanceName(client.getClass().getSimpleName() + System.nanoTime());
        // A broker that came back is found again soon.
        client.setPollNameServerInterval(1000);
        client.setHeartbeatBrokerInterval(1000);
    }

    private void createTopics(String broker) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt("ClusterAdmin");
        configure(admin);
        admin.start();
        for (String topic : Messages.TOPICS) {
            retry(() -> admin.createAndUpdateTopicConfig(broker, new TopicConfig(topic, QUEUES, QUEUES, 6)));
        }
        // The broker tells the name server in its own time.
        for (String topic : Messages.TOPICS) {
            retry(() -> admin.examineTopicRouteInfo(topic));
        }
        admin.shutdown();
    }

    private static void retry(Step step) throws Exception {
        for (int attempt = 0;; attempt++) {
            try {
                step.run();
                return;
            } catch (Exception error) {
                if (attempt == 200) {
                    throw error;
                }
                sleep(100);
            }
        }
    }

    /** By topic and queue: how many messages the broker says it has. */
    private Map<String, Map<String, Long>> queues() throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt("ClusterAdmin");
        configure(admin);
        admin.start();
        Map<String, Map<String, Long>> found = new TreeMap<>();
        // A broker that was killed may not be back yet.
        retry(() -> {
            found.clear();
            Queues.of(admin).forEach((topic, queues) -> queues.forEach(
                (queue, offsets) -> found.computeIfAbsent(topic, t -> new TreeMap<>()).put(queue.toString(), offsets[1])));
        });
        admin.shutdown();
        return found;
    }

    private void report(Map<String, Map<String, Long>> queues) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("seconds", (System.nanoTime() - begin) / 1e9);
        line.put("acknowledged", acknowledged.get());
        line.put("failed", failed.get());
        line.put("checked_back", checkedBack.get());
        line.put("repeated", repeated.get());
        if (queues != null) {
            line.put("queues", queues);
        }
        System.out.println(JSON.toJSONString(line));
    }

    private static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private final class Answers implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return state(message.getUserProperty("plan").charAt(0));
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            checkedBack.incrementAndGet();
            return state(message.getUserProperty("plan").charAt(1));
        }

        private static LocalTransactionState state(char plan) {
            return switch (plan) {
                case 'C' -> LocalTransactionState.COMMIT_MESSAGE;
                case 'R' -> LocalTransactionState.ROLLBACK_MESSAGE;
                default -> LocalTransactionState.UNKNOW;
            };
        }
    }
}
