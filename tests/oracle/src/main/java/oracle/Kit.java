package oracle;

import java.io.File;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.LongSupplier;
import org.apache.rocketmq.broker.filter.CommitLogDispatcherCalcBitMap;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.filter.util.BloomFilter;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/** Opens a real DefaultMessageStore, with what a broker puts around it, and puts messages into it. */
final class Kit {
    /** What stays the same over the sessions of one store. */
    static final class Setup {
        final Path dir;
        final Map<String, String> config;
        final ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        SystemClock clock = new SystemClock();
        boolean reputOnly;
        /** Shuts down without the seconds the store sleeps there for other threads' sake. */
        boolean quick;

        /** config: names of MessageStoreConfig and BrokerConfig properties, and their values. */
        Setup(Path dir, Map<String, String> config) {
            this.dir = dir;
            this.config = config;
        }

        void topic(String name, String queueType) {
            TopicConfig t = new TopicConfig(name, 4, 4, 6);
            if (queueType != null) {
                Compat.setQueueType(t, queueType);
            }
            topics.put(name, t);
        }

        Path topicsFile() {
            return dir.resolve("config").resolve("topics.json");
        }

        /** The topics a broker would know when it opens this store. */
        Setup withTopicsOnDisk() throws Exception {
            if (Files.exists(topicsFile())) {
                topics.putAll(Compat.decodeTopics(Files.readString(topicsFile())));
            }
            return this;
        }

        void persistTopics() throws Exception {
            if (!topics.isEmpty()) {
                MixAll.string2File(Compat.encodeTopics(topics), topicsFile().toString());
            }
        }
    }

    /** The broker's own filter manager, with the bloom filter and the file that a broker would give it. */
    static final class Filters extends ConsumerFilterManager {
        private final Path file;

        Filters(BrokerConfig bc, Path store) throws ReflectiveOperationException {
            file = store.resolve("config").resolve("consumerFilter.json");
            // Only the constructor that wants a whole BrokerController takes these settings from it.
            Field bloom = ConsumerFilterManager.class.getDeclaredField("bloomFilter");
            bloom.setAccessible(true);
            bloom.set(this, BloomFilter.createByFn(bc.getMaxErrorRateOfBloomFilter(), bc.getExpectConsumerNumUseFilter()));
        }

        @Override
        public String configFilePath() {
            return file.toString();
        }
    }

    /**
     * Whether this thread opens a store: start() looks for an end of the dispatch once a second, and
     * what it asks for then waits for it instead.
     */
    static final ThreadLocal<Boolean> isStarting = ThreadLocal.withInitial(() -> false);

    final DefaultMessageStore store;
    final MessageStoreConfig config = new MessageStoreConfig();
    final Filters filters;
    long messages;
    InetSocketAddress born = address("127.0.0.1", 54321);
    InetSocketAddress host = address("127.0.0.1", 10911);
    private final Setup setup;

    Kit(Setup setup) throws Exception {
        this.setup = setup;
        Properties p = new Properties();
        p.putAll(setup.config);
        BrokerConfig bc = new BrokerConfig();
        bc.setBrokerName("oracle");
        config.setHaListenPort(0);
        if (setup.quick) {
            config.setFlushCommitLogTimed(false); // else shutdown waits for up to flushIntervalCommitLog
            config.setMaxMessageSize(256 * 1024); // the size of a buffer outside the heap for each store
        }
        MixAll.properties2Object(p, config);
        MixAll.properties2Object(p, bc);
        config.setStorePathRootDir(setup.dir.toString());
        if (!setup.config.containsKey("storePathCommitLog")) {
            config.setStorePathCommitLog(setup.dir + File.separator + "commitlog");
        }
        synchronized (Kit.class) {
            // Stores are made one by one: their statistics are set up in a map that they share.
            store = Compat.open(config, bc, setup.topics, setup.clock, setup.reputOnly);
        }
        filters = new Filters(bc, setup.dir);
        if (bc.isEnableCalcFilterBitMap()) {
            config.setBitMapLengthConsumeQueueExt(filters.getBloomFilter().getM());
            if (Files.exists(Path.of(filters.configFilePath()))) {
                filters.load();
            }
            store.getDispatcherList().addFirst(new CommitLogDispatcherCalcBitMap(bc, filters));
        }
        spaceIndexFiles();
    }

    static Kit open(Setup setup) throws Exception {
        Kit k = new Kit(setup);
        if (!k.store.load()) {
            throw new IllegalStateException("load failed: " + setup.dir);
        }
        k.store.start();
        return k;
    }

    /**
     * An index file's name is the millisecond of its creation, and a second one created in the same
     * millisecond would be the same file, mapped twice. A broker's files are far too large for that;
     * these are not, so the dispatching thread waits for the clock after each new one.
     */
    private void spaceIndexFiles() throws ReflectiveOperationException {
        Field service = DefaultMessageStore.class.getDeclaredField("indexService");
        service.setAccessible(true);
        Object index = service.get(store);
        Field files = index.getClass().getDeclaredField("indexFileList");
        files.setAccessible(true);
        List<?> list = (List<?>) files.get(index);
        int[] seen = {0};
        store.getDispatcherList().addLast(request -> {
            if (list.size() != seen[0]) {
                seen[0] = list.size();
                long now = System.currentTimeMillis();
                while (System.currentTimeMillis() == now) {
                    Thread.onSpinWait();
                }
            }
        });
    }

    /** What dispatchBehindBytes() says, once nothing is behind if this thread opens a store. */
    static long behind(LongSupplier bytes) {
        while (isStarting.get() && bytes.getAsLong() > 0) {
            Thread.onSpinWait();
        }
        return bytes.getAsLong();
    }

    void awaitDispatch() throws InterruptedException {
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(1);
        }
    }

    void close() throws InterruptedException {
        awaitDispatch();
        if (setup.quick) {
            // The flush of a rolled index file has a thread of its own, which must not meet a closed file.
            for (Thread t : Thread.getAllStackTraces().keySet()) {
                if (t.getName().equals("FlushIndexFileThread")) {
                    t.join();
                }
            }
            Thread.currentThread().interrupt(); // ends the sleep, which shutdown() catches
        } else {
            Thread.sleep(50);
        }
        store.shutdown();
        Thread.interrupted();
    }

    /** Beside the store: what it was made from. One key=value a line. */
    void writeFacts(Map<String, ?> first, long maxPhyOffset) throws Exception {
        StringBuilder s = new StringBuilder();
        first.forEach((k, v) -> s.append(k).append('=').append(v).append('\n'));
        s.append("maxPhyOffset=").append(maxPhyOffset).append('\n');
        s.append("config=").append(new TreeMap<>(setup.config)).append('\n');
        Files.writeString(setup.dir.resolveSibling(setup.dir.getFileName() + ".facts"), s);
    }

    Compat.Msg msg(String topic, int queue, byte[] body) {
        Compat.Msg m = new Compat.Msg();
        MessageAccessor.setProperties(m, new HashMap<>()); // 5.x's put takes no null map
        m.setTopic(topic);
        m.setQueueId(queue);
        m.setBody(body);
        m.setBornTimestamp(1700000000000L + messages);
        m.setBornHost(born);
        m.setStoreHost(host);
        return m;
    }

    static void prop(Message m, String k, String v) {
        MessageAccessor.putProperty(m, k, v);
    }

    PutMessageResult put(Compat.Msg m) {
        return checked(tryPut(m, ""));
    }

    /** rawProperties: stored behind the message's own, as it is, whatever it is. */
    PutMessageResult tryPut(Compat.Msg m, String rawProperties) {
        m.setPropertiesString(MessageDecoder.messageProperties2String(m.getProperties()) + rawProperties);
        PutMessageResult r = store.putMessage(m);
        if (r.isOk()) {
            messages++;
        }
        return r;
    }

    MessageExtBatch batch(String topic, int queue, byte[] body) {
        MessageExtBatch b = new MessageExtBatch();
        MessageAccessor.setProperties(b, new HashMap<>());
        b.setTopic(topic);
        b.setQueueId(queue);
        b.setBornTimestamp(1700000000000L + messages);
        b.setBornHost(born);
        b.setStoreHost(host);
        b.setBody(body);
        return b;
    }

    /** An old-style batch: a record for each of its n messages. */
    PutMessageResult tryPutBatch(MessageExtBatch b, int n) {
        PutMessageResult r = store.putMessages(b);
        if (r.isOk()) {
            messages += n;
        }
        return r;
    }

    PutMessageResult putBatch(String topic, int queue, List<Message> parts) {
        return checked(tryPutBatch(batch(topic, queue, MessageDecoder.encodeMessages(parts)), parts.size()));
    }

    /**
     * An inner batch: one record for all n messages (5.x, BatchCQ topics), with the flags and the
     * property that SendMessageProcessor gives it.
     */
    PutMessageResult tryPutInnerBatch(MessageExtBatch b, int n) {
        b.setSysFlag(b.getSysFlag() | 0x40 | 0x80);
        prop(b, "INNER_NUM", String.valueOf(n));
        PutMessageResult r = Compat.putInnerBatch(store, b);
        if (r.isOk()) {
            messages++;
        }
        return r;
    }

    static PutMessageResult checked(PutMessageResult r) {
        if (!r.isOk()) {
            throw new IllegalStateException("put: " + r.getPutMessageStatus());
        }
        return r;
    }

    static InetSocketAddress address(String ip, int port) {
        try {
            return new InetSocketAddress(InetAddress.getByName(ip), port);
        } catch (Exception e) {
            throw new IllegalArgumentException(e);
        }
    }

    static byte[] utf8(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    /** k=v arguments, over the defaults given. */
    static Map<String, String> config(Map<String, String> defaults, String[] args, int from) {
        Map<String, String> c = new TreeMap<>(defaults);
        for (int i = from; i < args.length; i++) {
            if (!args[i].startsWith("--")) {
                int eq = args[i].indexOf('=');
                c.put(args[i].substring(0, eq), args[i].substring(eq + 1));
            }
        }
        return c;
    }

    /** The config line of a facts file. */
    static Map<String, String> configOf(Path facts) throws Exception {
        for (String line : Files.readAllLines(facts)) {
            if (line.startsWith("config={")) {
                Map<String, String> c = new TreeMap<>();
                for (String pair : line.substring(8, line.length() - 1).split(", ")) {
                    int eq = pair.indexOf('=');
                    c.put(pair.substring(0, eq), pair.substring(eq + 1));
                }
                return c;
            }
        }
        throw new IllegalArgumentException("no config in " + facts);
    }

    static String option(String[] args, String name, String dflt) {
        for (String a : args) {
            if (a.startsWith("--" + name + "=")) {
                return a.substring(name.length() + 3);
            }
        }
        return dflt;
    }

    /** A failing main must end the process: the store's threads would keep it alive. */
    static void haltOnFailure() {
        Thread.setDefaultUncaughtExceptionHandler((t, e) -> {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
    }

    static long procStatusKb(String field) throws Exception {
        for (String l : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (l.startsWith(field + ":")) {
                return Long.parseLong(l.replaceAll("\\D", ""));
            }
        }
        return -1;
    }
}
