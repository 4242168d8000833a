package cluster;

import com.alibaba.fastjson2.JSON;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.ha.HAConnectionState;
import org.apache.rocketmq.store.ha.autoswitch.AutoSwitchHAClient;
import org.apache.rocketmq.store.ha.autoswitch.AutoSwitchHAService;
import org.apache.rocketmq.store.stats.BrokerStatsManager;
import org.rocksdb.RocksDBException;

/**
 * Replica conf=FILE store=DIR id=N port=N: the store of a broker in controller mode, whose role is changed as
 * ReplicasManager changes it when the controller has elected. Commands come as lines "NUMBER VERB name=value...";
 * each is answered by one JSON line with "reply": NUMBER, in its own time. What happens by itself (acknowledged
 * messages, the log being cut) are JSON lines too.
 */
public final class Replica {
    private static final int ACKS_IN_A_LINE = 20;
    private static final int QUEUES = 4;
    private static final String LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz";
    // All of one length: then records of the same length stand for different queues.
    private static final String[] SAME = {"SwitchA", "SwitchB", "SwitchC"};
    private static final String[] MIXED = {"SwitchA", "orders", "payments-and-other-things", "%RETRY%Group", "t"};

    private final long id;
    private final BrokerConfig broker = new BrokerConfig();
    private final MessageStoreConfig config = new MessageStoreConfig();
    private final Watched store;
    private final AutoSwitchHAService ha;
    private final InetSocketAddress host = new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 10911);

    /** Tells when the log is cut, and when the first bytes come to stand there again. */
    private static final class Watched extends DefaultMessageStore {
        private volatile boolean isCut;

        Watched(MessageStoreConfig config, BrokerConfig broker, BrokerStatsManager stats) throws Exception {
            super(config, stats, (t, q, l, tag, ts, bm, p) -> { }, broker, new ConcurrentHashMap<String, TopicConfig>());
        }

        @Override
        public void truncateDirtyFiles(long offset) throws RocksDBException {
            long before = getMaxPhyOffset();
            super.truncateDirtyFiles(offset);
            if (offset < before) {
                isCut = true;
                tell("event", "cut", "from", before, "to", offset, "at", System.currentTimeMillis());
            }
        }

        @Override
        public boolean appendToCommitLog(long start, byte[] data, int from, int length) {
            boolean done = super.appendToCommitLog(start, data, from, length);
            writtenOver(start, length);
            return done;
        }

        void writtenOver(long start, long length) {
            if (isCut) {
                isCut = false;
                tell("event", "over", "to", start, "bytes", length, "at", System.currentTimeMillis());
            }
        }
    }

    private Replica(Options options) throws Exception {
        Properties properties = new Properties();
        try (var in = java.nio.file.Files.newBufferedReader(java.nio.file.Path.of(options.text("conf")))) {
            properties.load(in);
        }
        MixAll.properties2Object(properties, broker);
        MixAll.properties2Object(properties, config);
        id = options.number("id");
        broker.setEnableControllerMode(true);
        broker.setBrokerId(-1);
        config.setStorePathRootDir(options.text("store"));
        config.setStorePathCommitLog(options.text("store") + "/commitlog");
        config.setHaListenPort(options.number("port"));
        store = new Watched(config, broker, new BrokerStatsManager(broker.getBrokerClusterName(), true));
        ha = (AutoSwitchHAService) store.getHaService();
        // Until it has a role; BrokerController#start.
        store.getRunningFlags().makeFenced(true);
        if (!store.load()) {
            throw new IllegalStateException("load failed");
        }
        store.start();
        ha.setLocalBrokerId(id);
        // The controller agrees to every change.
        ha.registerSyncStateSetChangedListener(ha::setSyncStateSet);
        start(this::hurry);
        tell("event", "started", "max", store.getMaxPhyOffset(), "port", config.getHaListenPort());
    }

    public static void main(String[] args) throws Exception {
        int code = 0;
        try {
            new Replica(new Options(args)).serve();
        } catch (Throwable error) {
            error.printStackTrace();
            code = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(code);
    }

    private void serve() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            int number = Integer.parseInt(words[0]);
            Options options = new Options(Arrays.copyOfRange(words, 2, words.length));
            switch (words[1]) {
                case "master" -> tell("reply", number, "done", master(options.number("epoch")));
                case "slave" -> tell("reply", number, "done", slave(options.number("epoch"), options.text("address")));
                case "detach" -> {
                    ha.getHAClient().shutdown();
                    tell("reply", number, "max", store.getMaxPhyOffset());
                }
                case "put" -> start(() -> put(number, options));
                case "state" -> state(number);
                case "queues" -> tell("reply", number, "queues", queues());
                case "close" -> {
                    close();
                    tell("reply", number, "done", true);
                    return;
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    /** As ReplicasManager#changeToMaster. */
    private boolean master(int epoch) throws Exception {
        ha.setSyncStateSet(Set.of(id));
        boolean done = ha.changeToMaster(epoch);
        broker.setBrokerId(MixAll.MASTER_ID);
        config.setBrokerRole(BrokerRole.SYNC_MASTER);
        store.getRunningFlags().makeFenced(false);
        return done;
    }

    /** As ReplicasManager#changeToSlave; the address comes with the registration at a name server. */
    private boolean slave(int epoch, String address) {
        config.setBrokerRole(BrokerRole.SLAVE);
        broker.setBrokerId(id);
        boolean done = ha.changeToSlave(address, epoch, id);
        ha.updateHaMasterAddress(address);
        store.getRunningFlags().makeFenced(false);
        return done;
    }

    private void state(int number) {
        tell("reply", number, "max", store.getMaxPhyOffset(), "confirmed", store.getConfirmOffset(),
            "dispatched", store.getReputFromOffset(), "flushed", store.getFlushedWhere(), "epoch", ha.getLastEpoch(),
            "epochs", ha.getEpochEntries().size());
    }

    private Map<String, Map<String, Long>> queues() {
        Map<String, Map<String, Long>> found = new TreeMap<>();
        store.getConsumeQueueTable().forEach((topic, table) -> table.forEach((queue, entries) ->
            found.computeIfAbsent(topic, t -> new TreeMap<>()).put(queue.toString(), entries.getMaxOffsetInQueue())));
        return found;
    }

    private void close() {
        // Ends the seconds that shutdown sleeps for other threads' sake.
        Thread.currentThread().interrupt();
        store.shutdown();
        Thread.interrupted();
    }

    /** A client that lost its master, or is told to end, sleeps for seconds before it looks again. */
    private void hurry() {
        while (true) {
            AutoSwitchHAClient client = (AutoSwitchHAClient) ha.getHAClient();
            if (client != null && client.getCurrentState() == HAConnectionState.READY) {
                client.wakeup();
            }
            try {
                Thread.sleep(100);
            } catch (InterruptedException ended) {
                return;
            }
        }
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    /**
     * put count=N layout=SEED content=SEED kind=same|mixed|last: `layout` decides which queue a message goes to and how
     * long each part of it is, `content` what it says.
     */
    private void put(int number, Options options) {
        Random layout = new Random(options.number("layout"));
        Random content = new Random(options.number("content"));
        String kind = options.text("kind");
        boolean isSame = !kind.equals("mixed");
        int count = options.number("count");
        List<Object[]> acks = new ArrayList<>();
        int done = 0;
        String refused = "";
        while (done < count && refused.isEmpty()) {
            String topic = kind.equals("last") ? "SwitchLast" : isSame ? SAME[layout.nextInt(SAME.length)] : MIXED[layout.nextInt(MIXED.length)];
            int queue = kind.equals("last") ? 0 : layout.nextInt(QUEUES);
            boolean isBatch = !isSame && layout.nextInt(12) == 0;
            PutMessageResult result = isBatch ? putBatch(topic, queue, layout, content)
                : store.putMessage(single(topic, queue, isSame, layout, content));
            if (!result.isOk()) {
                refused = result.getPutMessageStatus().toString();
                break;
            }
            AppendMessageResult at = result.getAppendMessageResult();
            store.writtenOver(at.getWroteOffset(), at.getWroteBytes());
            done += at.getMsgNum();
            // Of a batch the first record, whose length is not told.
            acks.add(new Object[] {at.getWroteOffset(), isBatch ? 0 : at.getWroteBytes(), topic, queue,
                at.getLogicsOffset(), at.getWroteOffset() + at.getWroteBytes()});
            if (acks.size() == ACKS_IN_A_LINE) {
                tell("acks", acks);
                acks = new ArrayList<>();
            }
        }
        tell("acks", acks);
        tell("reply", number, "done", done, "refused", refused, "max", store.getMaxPhyOffset());
    }

    private MessageExtBrokerInner single(String topic, int queue, boolean isSame, Random layout, Random content) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        MessageAccessor.setProperties(message, new HashMap<>());
        fill(message, topic, isSame, layout, content);
        message.setQueueId(queue);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(host);
        message.setStoreHost(host);
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        return message;
    }

    private PutMessageResult putBatch(String topic, int queue, Random layout, Random content) {
        List<Message> parts = new ArrayList<>();
        for (int i = layout.nextInt(5) + 2; i > 0; i--) {
            Message part = new Message();
            MessageAccessor.setProperties(part, new HashMap<>());
            fill(part, topic, false, layout, content);
            parts.add(part);
        }
        MessageExtBatch batch = new MessageExtBatch();
        MessageAccessor.setProperties(batch, new HashMap<>());
        batch.setTopic(topic);
        batch.setQueueId(queue);
        batch.setBornTimestamp(System.currentTimeMillis());
        batch.setBornHost(host);
        batch.setStoreHost(host);
        batch.setBody(MessageDecoder.encodeMessages(parts));
        return store.putMessages(batch);
    }

    private static void fill(Message message, String topic, boolean isSame, Random layout, Random content) {
        int size = isSame ? 80 : layout.nextInt(40) == 0 ? 8000 : layout.nextInt(300);
        message.setTopic(topic);
        message.setBody(text(content, size).getBytes(StandardCharsets.US_ASCII));
        if (isSame || layout.nextInt(4) > 0) {
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_TAGS, text(content, isSame ? 4 : 1 + layout.nextInt(12)));
        }
        if (isSame || layout.nextInt(3) > 0) {
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, text(content, 32));
        }
        StringBuilder keys = new StringBuilder();
        for (int i = isSame ? 1 : layout.nextInt(4); i > 0; i--) {
            keys.append(keys.isEmpty() ? "" : " ").append(text(content, isSame ? 8 : 1 + layout.nextInt(20)));
        }
        if (!keys.isEmpty()) {
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_KEYS, keys.toString());
        }
    }

    private static String text(Random content, int length) {
        StringBuilder text = new StringBuilder(length);
        for (int i = 0; i < length; i++) {
            text.append(LETTERS.charAt(content.nextInt(LETTERS.length())));
        }
        return text.toString();
    }

    private static synchronized void tell(Object... pairs) {
        Map<String, Object> line = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            line.put((String) pairs[i], pairs[i + 1]);
        }
        System.out.println(JSON.toJSONString(line));
        System.out.flush();
    }
}
