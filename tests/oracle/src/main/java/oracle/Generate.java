package oracle;

import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.store.PutMessageResult;

/** Generate SCENARIO DIR [property=value ...]: what a real store writes for a seeded scenario. */
public final class Generate {
    private static final String SQL_TOPIC = "sql-topic";
    private static final String[] TAGS = {"TagA", "TagB", "créé", "标签", "a", "", null};
    /** Sizes at which commitlog, consumequeue and index all roll within a few thousand messages. */
    private static final Map<String, String> SMALL = Map.of(
        "mappedFileSizeCommitLog", "131072", "mappedFileSizeConsumeQueue", "2000",
        "mappedFileSizeConsumeQueueExt", "4096", "maxHashSlotNum", "101", "maxIndexNum", "600",
        "mapperFileSizeBatchConsumeQueue", "4600");

    private final Random rnd = new Random(Long.getLong("oracle.seed", 20240607L));
    private Kit kit;

    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        new Generate().run(args[0], args[1], args);
        System.exit(0);
    }

    private void run(String scenario, String dir, String[] args) throws Exception {
        Map<String, String> c = new HashMap<>(scenario.startsWith("big-") ? Map.of() : SMALL);
        switch (scenario) {
            case "sqlext" -> c.putAll(Map.of("enableConsumeQueueExt", "true", "enableCalcFilterBitMap", "true"));
            case "extonly" -> c.put("enableConsumeQueueExt", "true");
            case "lmq" -> c.putAll(Map.of("enableLmq", "true", "enableMultiDispatch", "true"));
            case "lmqext" -> c.putAll(Map.of("enableLmq", "true", "enableMultiDispatch", "true",
                "enableConsumeQueueExt", "true", "enableCalcFilterBitMap", "true"));
            case "propcrc" -> c.putAll(Map.of("enabledAppendPropCRC", "true"));
            default -> { }
        }
        Map<String, String> cfg = Kit.config(c, args, 2);
        Kit.Setup setup = new Kit.Setup(Paths.get(dir), cfg);
        if (scenario.equals("batchcq")) {
            setup.topic("batch-cq", "BatchCQ");
            setup.topic("batch-cq-2", "BatchCQ");
            setup.topic("simple-cq", "SimpleCQ");
            setup.topic("no-type", null);
        }
        kit = Kit.open(setup);
        switch (scenario) {
            case "basic", "propcrc", "extonly" -> basic(3000);
            case "batch" -> batch();
            case "delay" -> delay();
            case "trans" -> trans();
            case "flags" -> flags();
            case "longtopic" -> longTopic();
            case "sqlext" -> sql();
            case "lmq" -> lmq();
            case "lmqext" -> lmqExt();
            case "batchcq" -> batchCq();
            case "restart" -> {
                for (int i = 0; i < 3; i++) {
                    if (i > 0) {
                        kit = Kit.open(setup);
                    }
                    basic(500 + 37 * i);
                    if (i < 2) {
                        kit.close();
                    }
                }
            }
            case "unclean" -> {
                basic(1500);
                kit.awaitDispatch();
                Thread.sleep(1500);
                Rebuild.copy(Paths.get(dir), Paths.get(dir + ".live"));
            }
            case "big-small" -> big(Long.parseLong(Kit.option(args, "n", "2000000")), 100);
            case "big-1k" -> big(Long.parseLong(Kit.option(args, "n", "1000000")), 1024);
            default -> throw new IllegalArgumentException(scenario);
        }
        kit.awaitDispatch();
        long max = kit.store.getMaxPhyOffset();
        long n = kit.messages;
        kit.close();
        setup.persistTopics();
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("scenario", scenario);
        facts.put("messagesLastSession", n);
        kit.writeFacts(facts, max);
        System.out.println(scenario + " messages=" + n + " maxPhyOffset=" + max);
    }

    private String uniq() {
        return String.format("7F000001%04X%08X%08X0000", 0xBEEF, rnd.nextInt(), (int) kit.messages);
    }

    private byte[] body(int n) {
        byte[] b = new byte[n];
        rnd.nextBytes(b);
        return b;
    }

    private void basic(int n) {
        for (int i = 0; i < n; i++) {
            Compat.Msg m = kit.msg("topic-" + rnd.nextInt(9), rnd.nextInt(4), body(rnd.nextInt(8) == 0 ? 0 : rnd.nextInt(300)));
            if (i % 11 == 5) {
                m.setBody(Kit.utf8("héllo 世界 🚀 " + i));
            }
            String tag = TAGS[rnd.nextInt(TAGS.length)];
            if (tag != null) {
                m.setTags(tag);
            }
            switch (rnd.nextInt(6)) {
                case 0 -> m.setKeys("k" + i);
                case 1 -> m.setKeys("order-" + i + " user-" + i % 17 + " shared");
                case 2 -> m.setKeys("  double  spaces" + i + " ");
                case 3 -> m.setKeys("ключ" + i + " 键 🔑" + i % 3);
                case 4 -> m.setKeys("");
                default -> { }
            }
            if (rnd.nextInt(3) > 0) {
                Kit.prop(m, "UNIQ_KEY", uniq());
            }
            if (rnd.nextInt(4) == 0) {
                Kit.prop(m, "WAIT", "true");
                m.putUserProperty("user.p" + i % 5, "v" + i);
            }
            m.setFlag(rnd.nextInt(3));
            m.setReconsumeTimes(rnd.nextInt(3));
            if (i == n / 2) {
                m.setTopic("%RETRY%group-x");
            }
            kit.put(m);
        }
        for (String s : new String[] {"polygenelubricants", "Aa", "BB"}) { // hash MIN_VALUE as a whole string, collisions
            Compat.Msg m = kit.msg("topic-0", 0, body(3));
            m.setKeys(s);
            m.setTags(s);
            kit.put(m);
        }
        // "hash#" + key hashing to Integer.MIN_VALUE, whose abs stays negative: the index must use slot 0
        Compat.Msg m = kit.msg("hash", 0, body(1));
        m.setKeys(keyWithHash("hash#", Integer.MIN_VALUE));
        kit.put(m);
    }

    /** A printable key such that (prefix + key).hashCode() is the hash wanted. */
    static String keyWithHash(String prefix, int want) {
        Random r = new Random(Long.getLong("oracle.seed", 1L));
        while (true) {
            StringBuilder s = new StringBuilder();
            for (int i = 0; i < 3; i++) {
                s.append((char) ('a' + r.nextInt(26)));
            }
            long h = (prefix + s).hashCode();
            // six more characters c_i in 'A'..'z': want = h*31^6 + sum c_i*31^(5-i) (mod 2^32)
            long p = 1;
            for (int i = 0; i < 6; i++) {
                p *= 31;
            }
            long base = h * p;
            long lo = 0;
            for (int i = 0; i < 6; i++) {
                lo = lo * 31 + 'A';
            }
            long need = (want - base - lo) & 0xffffffffL;
            int[] d = new int[6];
            for (int i = 5; i >= 0; i--) {
                d[i] = (int) (need % 31);
                need /= 31;
            }
            if (need < 20) {
                d[0] += (int) need * 31;
                if (d[0] > 57) {
                    continue;
                }
                for (int v : d) {
                    s.append((char) ('A' + v));
                }
                if ((prefix + s).hashCode() == want && s.indexOf("\\") < 0) {
                    return s.toString();
                }
            }
        }
    }

    private void batch() {
        for (int i = 0; i < 150; i++) {
            String topic = "batch-" + i % 5;
            List<Message> parts = new ArrayList<>();
            int size = 1 + rnd.nextInt(20);
            for (int j = 0; j < size; j++) {
                Message m = new Message(topic, j % 3 == 0 ? null : "T" + j, "b" + i + "-" + j + (j % 2 == 0 ? " all" : ""), body(rnd.nextInt(120)));
                Kit.prop(m, "UNIQ_KEY", uniq());
                parts.add(m);
            }
            kit.putBatch(topic, i % 3, parts);
            if (i % 4 == 0) {
                Compat.Msg m = kit.msg(topic, i % 3, body(20));
                m.setTags("single");
                kit.put(m);
            }
        }
    }

    private void delay() {
        for (int i = 0; i < 1200; i++) {
            int level = 1 + rnd.nextInt(20); // 19 and 20 exceed the table: clamped to 18
            Compat.Msg m = kit.msg("delay-target-" + i % 3, i % 2, body(rnd.nextInt(100)));
            m.setTags("D" + i % 4);
            m.setKeys("dk" + i);
            Kit.prop(m, "UNIQ_KEY", uniq());
            if (i % 5 == 0) { // DELAY left in an ordinary topic means nothing (4.9's store would divert it)
                if (Compat.V5) {
                    Kit.prop(m, "DELAY", "3");
                }
            } else { // what the broker's send hook turns a delayed message into
                Kit.prop(m, "REAL_TOPIC", m.getTopic());
                Kit.prop(m, "REAL_QID", String.valueOf(m.getQueueId()));
                Kit.prop(m, "DELAY", String.valueOf(level));
                if (Compat.V5) { // 5.x does it in a broker hook, ahead of the store
                    m.setTopic("SCHEDULE_TOPIC_XXXX");
                    m.setQueueId(Math.min(level, 18) - 1);
                }
            }
            if (i % 50 == 49) { // in the schedule topic, level zero or none: the tag's hash stays
                m = kit.msg("SCHEDULE_TOPIC_XXXX", 2, body(5));
                m.setTags("noLevel");
                if (i % 100 == 99) {
                    Kit.prop(m, "DELAY", "0");
                }
            }
            kit.put(m);
        }
    }

    private void trans() {
        for (int i = 0; i < 700; i++) {
            String topic = "pay-" + i % 3;
            // as TransactionalMessageBridge writes a half message: type cleared, half topic, queue 0
            Compat.Msg half = kit.msg("RMQ_SYS_TRANS_HALF_TOPIC", 0, body(rnd.nextInt(150)));
            half.setTags("T" + i % 4);
            half.setKeys("tx" + i);
            Kit.prop(half, "UNIQ_KEY", uniq());
            Kit.prop(half, "TRAN_MSG", "true");
            Kit.prop(half, "PGROUP", "tx-group");
            Kit.prop(half, "REAL_TOPIC", topic);
            Kit.prop(half, "REAL_QID", String.valueOf(i % 2));
            if (i % 10 == 7) { // PREPARED left set: no consume queue entry, but indexed
                half.setSysFlag(0x4);
                half.setTopic(i % 20 == 7 ? topic : half.getTopic());
            }
            PutMessageResult r = kit.put(half);
            long halfOffset = r.getAppendMessageResult().getWroteOffset();
            if (i % 3 > 0) {
                Compat.Msg end = kit.msg(topic, i % 2, half.getBody());
                end.setTags("T" + i % 4);
                end.setKeys("tx" + i + " paid");
                Kit.prop(end, "UNIQ_KEY", half.getProperty("UNIQ_KEY"));
                end.setPreparedTransactionOffset(halfOffset);
                end.setSysFlag(i % 3 == 1 ? 0x8 : 0xC); // commit, rollback
                kit.put(end);
            }
            Compat.Msg op = kit.msg("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, Kit.utf8(String.valueOf(i)));
            op.setTags("d");
            kit.put(op);
        }
    }

    private void flags() {
        for (int i = 0; i < 900; i++) {
            boolean v6born = i % 4 == 1 || i % 4 == 3;
            boolean v6host = i % 4 >= 2;
            kit.born = v6born ? Kit.address("2001:db8::" + Integer.toHexString(i + 1), 40000 + i) : Kit.address("10.1.2.3", 40000 + i);
            kit.host = v6host ? Kit.address("fe80::1", 10911) : Kit.address("127.0.0.1", 10911);
            Compat.Msg m = kit.msg("flags-" + i % 2, i % 3, body(rnd.nextInt(200)));
            int sys = 0;
            if (i % 3 == 0) { // compressed, with each compression type's bits
                sys |= 0x1 | (new int[] {0, 1, 2, 3})[i / 3 % 4] << 8;
            }
            if (i % 5 == 0) {
                sys |= 0x2; // multi tags
            }
            m.setSysFlag(sys);
            m.setTags(i % 5 == 0 ? "x || y" + i % 7 : "flag" + i % 7);
            Kit.prop(m, "UNIQ_KEY", uniq());
            if (i % 40 == 0) {
                m.putUserProperty("big", "Ω".repeat(10 + rnd.nextInt(7000)));
            }
            if (i % 41 == 0) {
                m.setKeys(("key" + i + " ").repeat(60));
            }
            kit.put(m);
        }
    }

    private void longTopic() {
        for (int i = 0; i < 900; i++) {
            String topic = i % 2 == 0 ? "t".repeat(100 + i % 4 * 9) : "L" + "o".repeat(60 + i % 7 * 24) + "ng";
            Compat.Msg m = kit.msg(topic, i % 2, body(rnd.nextInt(100)));
            m.setTags("lt" + i % 3);
            m.setKeys("lk" + i);
            kit.put(m);
        }
    }

    private void filters() {
        kit.filters.register(SQL_TOPIC, "g-small", "a IS NOT NULL AND a < 5", "SQL92", 1L);
        kit.filters.register(SQL_TOPIC, "g-red", "color = 'red'", "SQL92", 1L);
        kit.filters.persist();
    }

    private void sql() {
        filters();
        for (int i = 0; i < 1500; i++) {
            Compat.Msg m = kit.msg(i % 4 == 0 ? "plain-topic" : SQL_TOPIC, i % 2, body(rnd.nextInt(80)));
            m.setTags("S" + i % 3);
            Kit.prop(m, "UNIQ_KEY", uniq());
            if (i % 5 > 0) {
                m.putUserProperty("a", String.valueOf(i % 10));
            }
            m.putUserProperty("color", i % 3 == 0 ? "red" : "blue");
            kit.put(m);
        }
    }

    /** Light queues of messages whose own queue has ext units: a light queue's entries have none. */
    private void lmqExt() {
        filters();
        for (int i = 0; i < 1200; i++) {
            Compat.Msg m = kit.msg(i % 3 == 0 ? SQL_TOPIC : "mqtt-" + i % 2, i % 3, body(rnd.nextInt(100)));
            m.setTags("q" + i % 3);
            m.putUserProperty("a", String.valueOf(i % 10));
            if (i % 4 > 0) {
                Kit.prop(m, "INNER_MULTI_DISPATCH", "%LMQ%user" + i % 7 + (i % 4 == 2 ? ",%LMQ%all" : ""));
            }
            kit.put(m);
        }
    }

    /**
     * Topics with queue.type=BatchCQ: inner batches (one record, flags 0xC0, INNER_NUM, INNER_BASE),
     * between them single messages and old-style batches in the same queues.
     */
    private void batchCq() {
        for (int i = 0; i < 900; i++) {
            String topic = new String[] {"batch-cq", "batch-cq-2", "simple-cq", "no-type"}[i % 4];
            List<Message> parts = new ArrayList<>();
            int size = 1 + rnd.nextInt(i % 50 == 0 ? 300 : 12);
            for (int j = 0; j < size; j++) {
                parts.add(new Message(topic, "T" + j % 3, "b" + i + "-" + j, body(rnd.nextInt(40))));
            }
            if (i % 4 < 2 && i % 3 > 0) {
                MessageExtBatch b = kit.batch(topic, i % 5 % 2, MessageDecoder.encodeMessages(parts));
                b.setTags(i % 7 == 0 ? "" : "batch" + i % 7);
                b.setKeys("bk" + i);
                Kit.prop(b, "UNIQ_KEY", uniq());
                Kit.checked(kit.tryPutInnerBatch(b, size));
            } else if (i % 5 == 0) {
                kit.putBatch(topic, i % 5 % 2, parts.subList(0, Math.min(size, 12)));
            } else {
                Compat.Msg m = kit.msg(topic, i % 5 % 2, body(rnd.nextInt(80)));
                m.setTags("single");
                m.setKeys("sk" + i);
                kit.put(m);
            }
        }
    }

    private void lmq() {
        for (int i = 0; i < 1200; i++) {
            Compat.Msg m = kit.msg("mqtt-" + i % 2, i % 3, body(rnd.nextInt(100)));
            m.setTags("q" + i % 3);
            Kit.prop(m, "UNIQ_KEY", uniq());
            switch (i % 4) {
                case 0 -> Kit.prop(m, "INNER_MULTI_DISPATCH", "%LMQ%user" + i % 7);
                case 1 -> Kit.prop(m, "INNER_MULTI_DISPATCH", "%LMQ%user" + i % 7 + ",%LMQ%all");
                case 2 -> Kit.prop(m, "INNER_MULTI_DISPATCH", "%LMQ%all,%LMQ%dev-" + i % 11 + ",%LMQ%user" + i % 5);
                default -> { }
            }
            kit.put(m);
        }
    }

    private void big(long n, int bodySize) {
        byte[] b = body(bodySize);
        String[] topics = new String[16];
        for (int i = 0; i < topics.length; i++) {
            topics[i] = "bench-topic-" + i;
        }
        for (long i = 0; i < n; i++) {
            Compat.Msg m = kit.msg(topics[rnd.nextInt(16)], rnd.nextInt(8), b);
            m.setTags("Tag" + rnd.nextInt(5));
            m.setKeys("order-" + i);
            Kit.prop(m, "UNIQ_KEY", uniq());
            Kit.prop(m, "WAIT", "true");
            kit.put(m);
        }
    }
}
