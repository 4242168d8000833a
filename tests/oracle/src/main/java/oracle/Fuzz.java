package oracle;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.store.PutMessageResult;

/**
 * Fuzz SEED COUNT DIR: random stores DIR/SEED, DIR/SEED+1, ... The seed decides everything in a
 * store, its timestamps too: the store's clock is random as well.
 *
 * <p>What is left out, since a rebuild of such a log would not give the files that are there (see
 * README.md): sessions that end with a record that is in no queue, and records the broker itself cannot
 * parse.
 */
public final class Fuzz {
    private static final String SCHEDULE = "SCHEDULE_TOPIC_XXXX";
    private static final String HALF = "RMQ_SYS_TRANS_HALF_TOPIC";
    private static final String OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
    private static final String LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    private static final String[] WORDS = {"order", "ключ", "键", "🔑", "é", "订单-7", "a=b", "Aa", "BB", "polygenelubricants",
        "x\ty", "\uD83D", "line\nbreak", "#", "\u00a0"};
    private static final String[] TAGS = {"TagA", "TagB", "a", "订单", "créé", "😀", "x || y", "two words", "\uDE00half",
        "polygenelubricants", "Ω≈ç√"};
    private static final String[] FILTERS = {"a IS NOT NULL AND a < 5", "color = 'red'", "a BETWEEN 2 AND 7 OR color IN ('blue', 'green')",
        "TAGS = 'TagA'", "TAGS IS NULL", "b > 0.5", "NOT (color = 'red')", "a = 3 OR a = 4 AND color <> 'blue'", "color NOT IN ('red')",
        "missing IS NULL", "TRUE = TRUE", "a >= 0 AND b <= 1.5e0", "UNIQ_KEY IS NOT NULL", "city = '北京'", "a NOT BETWEEN 1 AND 8"};
    private static final String[] NO_DELAYS = {"0", "-1", "-7"};
    private static final String[] DELAYS = {"1", "2", "3", "5", "18", "19", "99", "+2", "007", "٣", "2147483647"};

    private static final class Topic {
        String name;
        int[] queues;
        boolean batchCq;
    }

    /** The time is what the test says. */
    private static final class Clock extends SystemClock {
        private volatile long now;

        @Override
        public long now() {
            return now;
        }
    }

    private final Random rnd;
    private final long seed;
    private final Clock clock = new Clock();
    private final Map<String, String> config = new TreeMap<>();
    private final List<Topic> topics = new ArrayList<>();
    private final Map<String, Long> lightOffsets = new TreeMap<>();
    private final int sessions;
    private final boolean lmq;
    private final boolean multiDispatch;
    private final int maxKeys;
    private final int maxBody;
    private Kit kit;
    private long total;
    private long maxPhyOffset;

    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        long first = Long.parseLong(args[0]);
        for (long seed = first; seed < first + Integer.parseInt(args[1]); seed++) {
            long start = System.nanoTime();
            Fuzz f = new Fuzz(seed);
            String done = f.write(Path.of(args[2]).resolve(String.valueOf(seed)));
            System.out.println(seed + " " + done + " ms=" + (System.nanoTime() - start) / 1_000_000);
        }
        System.exit(0);
    }

    private Fuzz(long seed) {
        this.seed = seed;
        // Neighbouring seeds begin alike in java.util.Random.
        rnd = new Random(seed * 0x9E3779B97F4A7C15L);
        config.put("mappedFileSizeCommitLog", String.valueOf(65536 + 4096 * (chance(50) ? 0 : rnd.nextInt(49))));
        config.put("mappedFileSizeConsumeQueue", String.valueOf(20 * (20 + rnd.nextInt(181))));
        config.put("maxHashSlotNum", String.valueOf(5 + rnd.nextInt(297)));
        int indexNum = rnd.nextInt(3) == 0 ? 10 + rnd.nextInt(40) : 10 + rnd.nextInt(591);
        config.put("maxIndexNum", String.valueOf(indexNum));
        // One record must not fill two index files: they would be created within a millisecond.
        maxKeys = Math.min(60, indexNum - 4);
        if (chance(35)) {
            config.put("enableConsumeQueueExt", "true");
            config.put("mappedFileSizeConsumeQueueExt", String.valueOf(2048 + rnd.nextInt(6145)));
        }
        if (chance(config.containsKey("enableConsumeQueueExt") ? 60 : 5)) {
            config.put("enableCalcFilterBitMap", "true");
            if (chance(30)) {
                config.put("expectConsumerNumUseFilter", String.valueOf(1 + rnd.nextInt(100)));
                config.put("maxErrorRateOfBloomFilter", String.valueOf(1 + rnd.nextInt(60)));
            }
        }
        multiDispatch = chance(35);
        lmq = chance(multiDispatch ? 80 : 5);
        if (multiDispatch) {
            config.put("enableMultiDispatch", "true");
        }
        if (lmq) {
            config.put("enableLmq", "true");
        }
        if (chance(30)) {
            config.put("messageDelayLevel", delayLevels());
        }
        if (chance(8)) {
            config.put("messageIndexEnable", "false");
        }
        if (Compat.V5) {
            config.put("mapperFileSizeBatchConsumeQueue", String.valueOf(46 * (10 + rnd.nextInt(91))));
            if (chance(20)) {
                config.put("enabledAppendPropCRC", "true");
            }
        }
        sessions = chance(70) ? 1 : 2 + rnd.nextInt(2);
        maxBody = chance(25) ? 2000 : 300;
        clock.now = 1_500_000_000_000L + (rnd.nextLong() >>> 1) % 300_000_000_000L;
    }

    private String write(Path dir) throws Exception {
        Kit.Setup setup = new Kit.Setup(dir, config);
        setup.clock = clock;
        setup.quick = true;
        int n = 1 + rnd.nextInt(12);
        for (int i = 0; i < n; i++) {
            Topic t = topic(i);
            topics.add(t);
            setup.topic(t.name, t.batchCq ? "BatchCQ" : Compat.V5 && chance(10) ? "SimpleCQ" : null);
        }
        int messages = 20 + (int) (580 * Math.pow(rnd.nextDouble(), 2));
        for (int session = 0; session < sessions; session++) {
            kit = Kit.open(setup);
            if (session == 0) {
                registerFilters();
            }
            long target = messages * (session + 1L) / sessions;
            long before = total;
            while (before + kit.messages < target) {
                tick();
                something();
            }
            if (session < sessions - 1) {
                kit.put(plain("last-of-session", 0));
            }
            if (!config.containsKey("messageIndexEnable") && maxKeys < 60 && chance(20)) {
                endWithFullIndexFile(dir.resolve("index"));
            }
            total = before + kit.messages;
            kit.awaitDispatch();
            maxPhyOffset = kit.store.getMaxPhyOffset();
            kit.close();
        }
        setup.persistTopics();
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("seed", seed);
        facts.put("sessions", sessions);
        facts.put("messages", total);
        kit.writeFacts(facts, maxPhyOffset);
        return "messages=" + total + " maxPhyOffset=" + maxPhyOffset + " sessions=" + sessions;
    }

    /**
     * A full last file; or the empty one that follows it, which the broker creates for the next record
     * even when that has no keys.
     */
    private void endWithFullIndexFile(Path index) throws Exception {
        for (int i = 0; i <= maxKeys + 4; i++) {
            kit.awaitDispatch();
            if (itemsOfLast(index) == Integer.parseInt(config.get("maxIndexNum"))) {
                if (chance(70)) {
                    kit.put(kit.msg("last-of-session", 0, body(40)));
                }
                return;
            }
            Compat.Msg m = kit.msg("last-of-session", 0, body(40));
            m.setKeys("fill");
            kit.put(m);
        }
    }

    private static int itemsOfLast(Path index) throws Exception {
        if (!Files.isDirectory(index)) {
            return 0;
        }
        try (Stream<Path> files = Files.list(index)) {
            Optional<Path> last = files.max(Comparator.naturalOrder());
            return last.isEmpty() ? 0 : ByteBuffer.wrap(Files.readAllBytes(last.get())).getInt(36);
        }
    }

    private void something() {
        Topic t = topics.get(rnd.nextInt(topics.size()));
        int kind = rnd.nextInt(100);
        if (t.batchCq && kind < 60) {
            innerBatch(t);
        } else if (kind < 70) {
            single(t);
        } else if (kind < 78) {
            batch(t);
        } else if (kind < 86) {
            transaction(t);
        } else if (kind < 94) {
            delayed(t);
        } else {
            Compat.Msg m = kit.msg(t.name, queue(t), body(maxBody));
            decorate(m);
            put(m, rawProperties());
        }
    }

    private void single(Topic t) {
        Compat.Msg m = kit.msg(t.name, queue(t), body(chance(5) ? 2000 : maxBody));
        decorate(m);
        int sys = 0;
        if (chance(10)) {
            sys |= 0x1 | rnd.nextInt(4) << 8; // compressed, and how
        }
        if (chance(5)) {
            sys |= 0x2; // MULTI_TAGS
        }
        if (chance(6)) {
            sys |= 0x4 << rnd.nextInt(2); // PREPARED or COMMIT
        } else if (chance(3)) {
            sys |= 0xC; // ROLLBACK
        }
        m.setSysFlag(sys);
        String raw = "";
        if (multiDispatch && chance(30)) {
            if (lmq || !Compat.V5) {
                Kit.prop(m, "INNER_MULTI_DISPATCH", lightQueues());
            } else {
                raw = multiDispatchByClient();
            }
        } else if (multiDispatch && chance(5)) {
            raw = multiDispatchByClient();
        }
        if (raw.length() > 0 && !m.getProperties().isEmpty() && !Compat.V5) {
            raw = "\u0002" + raw; // 4.9 leaves the last pair unended
        }
        if (t.batchCq && chance(5)) {
            raw += innerNumbersByClient();
        }
        put(m, raw);
    }

    /** Numbers of an inner batch on a record that is none: the broker's queue believes them. */
    private String innerNumbersByClient() {
        String base = pair("INNER_BASE", String.valueOf(rnd.nextInt(1000) - (chance(20) ? 1000 : 0)));
        // A unit of no messages ends the queue for the broker when it starts the next time.
        int least = sessions == 1 ? 0 : 1;
        String num = pair("INNER_NUM", String.valueOf(chance(20) ? -5 : least + rnd.nextInt(50)));
        return chance(20) ? base : chance(20) ? num : base + num;
    }

    /** Names as the broker itself completes them with offsets, when it stores the message. */
    private String lightQueues() {
        List<String> names = new ArrayList<>();
        int n = 1 + rnd.nextInt(3);
        for (int i = 0; i < n; i++) {
            names.add("%LMQ%" + (chance(10) ? "пользователь" : "user") + rnd.nextInt(7));
        }
        if (!chance(5)) {
            names = new ArrayList<>(new LinkedHashSet<>(names)); // the same one twice, rarely
        }
        if (chance(8) && (Compat.V5 || sessions == 1)) {
            // 4.9 makes a directory in a directory of it, which it does not find again when it starts
            names.add("%LMQ%dir/file");
        }
        if (!Compat.V5 && chance(20)) {
            // 4.9 completes other queues too, and so feeds one topic's messages to another's queue
            names.add(chance(50) ? "fan-out" : topics.get(rnd.nextInt(topics.size())).name);
        } else if (Compat.V5 && chance(4)) {
            // 5.x gives it no offset: last in the list the counts then differ, and nothing is
            // dispatched. (Anywhere else in the list it would stop the broker's dispatch for good.)
            names.add("fan-out");
        }
        return String.join(",", names);
    }

    /** The client has written names and offsets, and the broker stores them as they are. */
    private String multiDispatchByClient() {
        String name = "fan-" + rnd.nextInt(4);
        long offset = lightOffsets.computeIfAbsent(name, k -> (long) (rnd.nextInt(3) == 0 ? 0 : rnd.nextInt(300)));
        lightOffsets.put(name, offset + 1 + (chance(5) ? rnd.nextInt(3) : 0));
        String offsets = String.valueOf(offset);
        if (chance(5)) {
            offsets += ",1"; // more offsets than names
        }
        return pair("INNER_MULTI_DISPATCH", name) + pair("INNER_MULTI_QUEUE_OFFSET", offsets);
    }

    private void batch(Topic t) {
        int n = 1 + rnd.nextInt(12);
        boolean malformed = chance(8);
        ByteBuffer body = ByteBuffer.allocate(1 << 17);
        for (int i = 0; i < n; i++) {
            Message m = part(t, i);
            if (malformed) {
                body.put(encode(m, malformedProperties()));
            } else {
                body.put(MessageDecoder.encodeMessage(m));
            }
        }
        MessageExtBatch b = kit.batch(t.name, queue(t), Arrays.copyOf(body.array(), body.position()));
        b.setSysFlag(chance(5) ? 0x2 : 0);
        hosts();
        b.setBornHost(kit.born);
        b.setStoreHost(kit.host);
        kit.tryPutBatch(b, n);
    }

    private Message part(Topic t, int i) {
        Message m = new Message(t.name, body(maxBody / 2));
        if (chance(60)) {
            m.setTags(pick(TAGS));
        }
        if (chance(60)) {
            m.setKeys(keys(3));
        }
        if (chance(70)) {
            Kit.prop(m, "UNIQ_KEY", uniq());
        }
        m.setFlag(i);
        return m;
    }

    private void innerBatch(Topic t) {
        int n = 1 + rnd.nextInt(chance(5) ? 400 : 15);
        List<Message> parts = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            Message m = new Message(t.name, body(60));
            if (chance(50)) {
                m.setTags(pick(TAGS));
            }
            parts.add(m);
        }
        MessageExtBatch b = kit.batch(t.name, queue(t), MessageDecoder.encodeMessages(parts));
        decorate(b);
        if (b.getProperty("UNIQ_KEY") == null) { // without, the broker would store an old-style batch
            Kit.prop(b, "UNIQ_KEY", uniq());
        }
        b.setSysFlag(chance(10) ? 0x1 | 0x300 : 0);
        kit.tryPutInnerBatch(b, n);
    }

    /** A half message and what may follow, as TransactionalMessageBridge writes them. */
    private void transaction(Topic t) {
        Compat.Msg half = kit.msg(HALF, 0, body(150));
        decorate(half);
        Kit.prop(half, "TRAN_MSG", "true");
        Kit.prop(half, "PGROUP", "tx-group");
        Kit.prop(half, "REAL_TOPIC", t.name);
        Kit.prop(half, "REAL_QID", "0");
        if (chance(10)) {
            half.setSysFlag(0x4);
        }
        PutMessageResult r = put(half, "");
        if (r != null && chance(80)) {
            Compat.Msg end = kit.msg(t.name, queue(t), half.getBody());
            decorate(end);
            end.setPreparedTransactionOffset(r.getAppendMessageResult().getWroteOffset());
            end.setSysFlag(chance(60) ? 0x8 : chance(50) ? 0xC : 0);
            put(end, "");
            Compat.Msg op = kit.msg(OP, 0, Kit.utf8("17"));
            op.setTags("d");
            put(op, "");
        }
    }

    private void delayed(Topic t) {
        if (chance(50)) { // as it comes to the store: 4.9 diverts it there, 5.x in a hook ahead of it
            int level = 1 + rnd.nextInt(20);
            Compat.Msg m = kit.msg(t.name, queue(t), body(100));
            decorate(m);
            if (Compat.V5) {
                Kit.prop(m, "REAL_TOPIC", m.getTopic());
                Kit.prop(m, "REAL_QID", String.valueOf(m.getQueueId()));
                m.setTopic(SCHEDULE);
                m.setQueueId(Math.min(level, 18) - 1);
            }
            Kit.prop(m, "DELAY", String.valueOf(level));
            put(m, "");
        } else { // every number Java reads as one, in the schedule topic and elsewhere
            Compat.Msg m = kit.msg(chance(80) ? SCHEDULE : t.name, rnd.nextInt(18), body(60));
            if (chance(70)) {
                m.setTags(pick(TAGS));
            }
            String raw = chance(10) ? "" : pair("DELAY", chance(25) ? pick(NO_DELAYS) : pick(DELAYS));
            put(m, m.getProperties().isEmpty() || Compat.V5 ? raw : "\u0002" + raw);
        }
    }

    private Compat.Msg plain(String topic, int queue) {
        Compat.Msg m = kit.msg(topic, queue, body(40));
        m.setTags("end");
        return m;
    }

    private void decorate(Message m) {
        if (chance(70)) {
            m.setTags(chance(90) ? pick(TAGS) : "");
        }
        if (chance(60)) {
            m.setKeys(keys(chance(5) ? maxKeys : Math.min(4, maxKeys)));
        }
        if (chance(65)) {
            Kit.prop(m, "UNIQ_KEY", uniq());
        }
        if (chance(40)) {
            Kit.prop(m, "a", chance(90) ? String.valueOf(rnd.nextInt(10)) : pick(new String[] {"word", "", "1.5", "-3", "007"}));
        }
        if (chance(40)) {
            Kit.prop(m, "color", pick(new String[] {"red", "blue", "green", "Red", ""}));
        }
        if (chance(15)) {
            Kit.prop(m, "b", String.valueOf(rnd.nextDouble() * 2));
        }
        if (chance(10)) {
            Kit.prop(m, "city", chance(50) ? "北京" : "上海");
        }
        if (chance(5)) {
            Kit.prop(m, "", "no name");
        }
        if (chance(5)) {
            Kit.prop(m, "имя-" + rnd.nextInt(5), "");
        }
        if (chance(10)) {
            Kit.prop(m, "WAIT", String.valueOf(rnd.nextBoolean()));
        }
        if (chance(3)) {
            Kit.prop(m, "big", "Ω".repeat(rnd.nextInt(4000)));
        }
        m.setFlag(chance(20) ? rnd.nextInt() : 0);
        hosts();
        if (m instanceof Compat.Msg x) {
            x.setBornHost(kit.born);
            x.setStoreHost(kit.host);
            x.setReconsumeTimes(chance(10) ? rnd.nextInt(16) : 0);
        } else if (m instanceof MessageExtBatch x) {
            x.setBornHost(kit.born);
            x.setStoreHost(kit.host);
        }
    }

    private void hosts() {
        kit.born = chance(20) ? Kit.address("2001:db8::" + Integer.toHexString(rnd.nextInt(65535)), 1 + rnd.nextInt(65000))
            : Kit.address("10.1.2." + rnd.nextInt(256), 1 + rnd.nextInt(65000));
        kit.host = chance(15) ? Kit.address("fe80::1", 10911) : Kit.address("127.0.0.1", 10911);
    }

    /** What clients may send, that no producer writes: empty, repeated, unfinished, doubly separated. */
    private String rawProperties() {
        StringBuilder s = new StringBuilder(chance(50) ? "\u0002" : "");
        int n = 1 + rnd.nextInt(5);
        for (int i = 0; i < n; i++) {
            s.append(switch (rnd.nextInt(10)) {
                case 0 -> "TAGS\u0001" + pick(TAGS);
                case 1 -> "KEYS\u0001" + keys(Math.min(2, maxKeys));
                case 2 -> "UNIQ_KEY\u0001" + uniq();
                case 3 -> "TAGS\u0001";
                case 4 -> "\u0001value";
                case 5 -> "name";
                case 6 -> "KEYS\u0001k1\u0001k2";
                case 7 -> "";
                case 8 -> "T\u0001";
                default -> "a\u0001" + rnd.nextInt(10);
            });
            s.append(i < n - 1 || chance(50) ? "\u0002" : "");
        }
        return s.toString();
    }

    /** Bytes that are not UTF-8: an encoded surrogate, an overlong form, a cut sequence, a lone byte. */
    private byte[] malformedProperties() {
        byte[][] bad = {{(byte) 0xED, (byte) 0xA0, (byte) 0x80}, {(byte) 0xC0, (byte) 0xAF}, {(byte) 0xF0, (byte) 0x9F, (byte) 0x98},
            {(byte) 0xFF}, {(byte) 0xE2, (byte) 0x82}, {(byte) 0xF4, (byte) 0x90, (byte) 0x80, (byte) 0x80}, {(byte) 0x80}};
        ByteBuffer b = ByteBuffer.allocate(200);
        for (String name : new String[] {"TAGS", "KEYS", "UNIQ_KEY"}) {
            b.put(Kit.utf8(name + "\u0001x")).put(bad[rnd.nextInt(bad.length)]).put(Kit.utf8(chance(50) ? "y\u0002" : "\u0002"));
        }
        return Arrays.copyOf(b.array(), b.position());
    }

    /** As MessageDecoder.encodeMessage, but with properties that are no string. */
    private static byte[] encode(Message m, byte[] properties) {
        ByteBuffer b = ByteBuffer.allocate(22 + m.getBody().length + properties.length);
        b.putInt(b.capacity()).putInt(0).putInt(0).putInt(m.getFlag()).putInt(m.getBody().length).put(m.getBody());
        b.putShort((short) properties.length).put(properties);
        return b.array();
    }

    private PutMessageResult put(Compat.Msg m, String raw) {
        try {
            PutMessageResult r = kit.tryPut(m, raw);
            return r.isOk() ? r : null;
        } catch (NumberFormatException refused) { // 4.9: a DELAY that is no number
            return null;
        }
    }

    private void registerFilters() {
        if (!config.containsKey("enableCalcFilterBitMap")) {
            return;
        }
        for (Topic t : topics) {
            int n = chance(50) ? rnd.nextInt(5) : 0;
            for (int i = 0; i < n; i++) {
                kit.filters.register(t.name, "group-" + i, pick(FILTERS), "SQL92", 1L);
                // It was there before all records, whose clock is not today's.
                kit.filters.get(t.name, "group-" + i).setBornTime(1L);
            }
        }
        kit.filters.persist();
    }

    private Topic topic(int i) {
        Topic t = new Topic();
        int kind = rnd.nextInt(100);
        if (kind < 55) {
            t.name = "topic-" + i;
        } else if (kind < 65) {
            t.name = "%RETRY%group-" + i;
        } else if (kind < 72) {
            t.name = "тема-" + i;
        } else if (kind < 79) {
            t.name = "主题😀-" + i;
        } else if (kind < 84) {
            t.name = "rmq_sys_" + i;
        } else {
            int length = kind < 94 || !Compat.V5 ? 100 + rnd.nextInt(28) : 128 + rnd.nextInt(73);
            StringBuilder s = new StringBuilder(String.valueOf(i));
            while (s.length() < length) {
                s.append(LETTERS.charAt(rnd.nextInt(LETTERS.length())));
            }
            t.name = s.toString();
        }
        t.queues = new int[1 + rnd.nextInt(4)];
        for (int j = 0; j < t.queues.length; j++) {
            t.queues[j] = chance(5) ? 1000 + rnd.nextInt(9000) : rnd.nextInt(9);
        }
        t.batchCq = Compat.V5 && chance(15);
        return t;
    }

    private String delayLevels() {
        List<String> levels = new ArrayList<>();
        int n = 1 + rnd.nextInt(25);
        for (int i = 0; i < n; i++) {
            levels.add(1 + rnd.nextInt(59) + pick(new String[] {"s", "m", "h", "d"}));
        }
        return String.join(" ", levels);
    }

    /** Mostly within a second, sometimes long after, sometimes back. */
    private void tick() {
        int kind = rnd.nextInt(1000);
        clock.now += kind < 900 ? rnd.nextInt(40) : kind < 980 ? rnd.nextInt(20_000) : kind < 995 ? -rnd.nextInt(5_000)
            : rnd.nextInt(100_000_000);
    }

    private String keys(int max) {
        if (chance(5)) {
            return chance(50) ? "" : "   ";
        }
        StringBuilder s = new StringBuilder(chance(5) ? " " : "");
        int n = 1 + rnd.nextInt(Math.max(1, max));
        for (int i = 0; i < n; i++) {
            s.append(i > 0 ? chance(10) ? "  " : " " : "");
            s.append(chance(60) ? "k" + rnd.nextInt(5000) : pick(WORDS) + rnd.nextInt(3));
        }
        return s.toString();
    }

    private String uniq() {
        return chance(90) ? String.format("7F000001BEEF%08X%08X0000", rnd.nextInt(), rnd.nextInt()) : pick(WORDS) + rnd.nextInt(100);
    }

    private int queue(Topic t) {
        return t.queues[rnd.nextInt(t.queues.length)];
    }

    private byte[] body(int max) {
        byte[] b = new byte[chance(8) ? 0 : rnd.nextInt(max + 1)];
        rnd.nextBytes(b);
        return b;
    }

    private static String pair(String name, String value) {
        return name + "\u0001" + value + "\u0002";
    }

    private String pick(String[] from) {
        return from[rnd.nextInt(from.length)];
    }

    private boolean chance(int percent) {
        return rnd.nextInt(100) < percent;
    }
}
