package oracle;

import java.io.BufferedWriter;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.broker.filter.ExpressionMessageFilter;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.index.QueryOffsetResult;

/**
 * Query STORE...: the broker opens each store, with the properties in STORE.facts, and answers what
 * STORE.requests asks, a line each, into STORE.answers, one JSON value a line. Words are separated by
 * tabs; those that come from messages are base64 of UTF-8.
 *
 * <pre>
 * OFFSETS topic key max begin end   IndexService#queryOffset
 * TAGGED  topic key max begin end   the same, for tags (5.4 and later)
 * KEY     topic key max begin end   DefaultMessageStore#queryMessage: physical offsets
 * GET     topic queue offset max tags   getMessage; tags: a subscription, empty for none
 * TIME    topic queue time type     getOffsetInQueueByTime; type LOWER, UPPER or - for none
 * RANGE   topic queue               getMinOffsetInQueue, getMaxOffsetInQueue, getEarliestMessageTime
 * ASKED   topic key max begin end   queryMessage: physical offsets, and how far the index is
 * AT      offset                    lookMessageByOffset: physical offset, size, message id
 * ID      text                      decodeMessageId, MessageClientIDSetter
 * </pre>
 */
public final class Query {
    private final Kit kit;
    private final Object index;
    private final Method queryOffset;

    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<?>> all = new ArrayList<>();
        for (String each : args) {
            all.add(pool.submit(() -> {
                answer(Path.of(each));
                return null;
            }));
        }
        for (Future<?> f : all) {
            f.get();
        }
        System.exit(0);
    }

    private static void answer(Path dir) throws Exception {
        Kit.Setup setup = new Kit.Setup(dir, Kit.configOf(dir.resolveSibling(dir.getFileName() + ".facts"))).withTopicsOnDisk();
        setup.quick = true;
        setup.config.put("commitLogRecoverMaxNum", "1000000");
        Kit kit = Kit.open(setup);
        kit.awaitDispatch();
        Query query = new Query(kit);
        List<String> lines = Files.readAllLines(dir.resolveSibling(dir.getFileName() + ".requests"));
        try (BufferedWriter out = Files.newBufferedWriter(dir.resolveSibling(dir.getFileName() + ".answers"))) {
            for (String line : lines) {
                out.write(Json.of(query.answer(line.split("\t", -1))));
                out.write('\n');
            }
        }
        kit.close();
    }

    Query(Kit kit) throws ReflectiveOperationException {
        this.kit = kit;
        index = indexOf(kit.store);
        queryOffset = index.getClass().getMethod("queryOffset", String.class, String.class, int.class, long.class, long.class);
    }

    static Object indexOf(DefaultMessageStore store) throws ReflectiveOperationException {
        Field service = DefaultMessageStore.class.getDeclaredField("indexService");
        service.setAccessible(true);
        return service.get(store);
    }

    Object answer(String[] words) throws Exception {
        switch (words[0]) {
            case "OFFSETS":
                return offsets((QueryOffsetResult) queryOffset.invoke(index, text(words[1]), text(words[2]),
                    Integer.parseInt(words[3]), Long.parseLong(words[4]), Long.parseLong(words[5])));
            case "TAGGED":
                Method tagged = index.getClass().getMethod("queryOffset", String.class, String.class, int.class, long.class,
                    long.class, String.class);
                return offsets((QueryOffsetResult) tagged.invoke(index, text(words[1]), text(words[2]),
                    Integer.parseInt(words[3]), Long.parseLong(words[4]), Long.parseLong(words[5]), "T"));
            case "KEY":
                return messages(text(words[1]), text(words[2]), Integer.parseInt(words[3]), Long.parseLong(words[4]),
                    Long.parseLong(words[5]));
            case "GET":
                return get(text(words[1]), Integer.parseInt(words[2]), Long.parseLong(words[3]), Integer.parseInt(words[4]),
                    text(words[5]));
            case "TIME":
                return Compat.offsetByTime(kit.store, text(words[1]), Integer.parseInt(words[2]), Long.parseLong(words[3]), words[4]);
            case "RANGE":
                String topic = text(words[1]);
                int queue = Integer.parseInt(words[2]);
                return List.of(kit.store.getMinOffsetInQueue(topic, queue), kit.store.getMaxOffsetInQueue(topic, queue),
                    kit.store.getEarliestMessageTime(topic, queue));
            case "ASKED":
                QueryMessageResult asked = kit.store.queryMessage(text(words[1]), text(words[2]), Integer.parseInt(words[3]),
                    Long.parseLong(words[4]), Long.parseLong(words[5]));
                List<Object> said = new ArrayList<>(List.of(asked.getIndexLastUpdateTimestamp(),
                    asked.getIndexLastUpdatePhyoffset()));
                for (ByteBuffer each : asked.getMessageBufferList()) {
                    said.add(List.of(each.getLong(28), each.remaining()));
                }
                asked.release();
                return said;
            case "AT":
                MessageExt m = kit.store.lookMessageByOffset(Long.parseLong(words[1]));
                return m == null ? null : List.of(m.getCommitLogOffset(), m.getStoreSize(), m.getMsgId());
            case "ID":
                return id(words[1]);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static Object offsets(QueryOffsetResult r) {
        return List.of(r.getPhyOffsets(), r.getIndexLastUpdateTimestamp(), r.getIndexLastUpdatePhyoffset());
    }

    private Object messages(String topic, String key, int max, long begin, long end) {
        QueryMessageResult r = kit.store.queryMessage(topic, key, max, begin, end);
        List<Long> found = new ArrayList<>();
        for (ByteBuffer each : r.getMessageBufferList()) {
            found.add(each.getLong(28)); // the record's own physical offset
        }
        r.release();
        return found;
    }

    private Object get(String topic, int queue, long offset, int max, String tags) throws Exception {
        MessageFilter filter = tags.isEmpty() ? null
            : new ExpressionMessageFilter(Compat.subscription(topic, tags), null, kit.filters);
        GetMessageResult r = kit.store.getMessage("oracle", topic, queue, offset, max, filter);
        List<List<Long>> found = new ArrayList<>();
        for (SelectMappedBufferResult each : r.getMessageMapedList()) {
            found.add(List.of(each.getStartOffset(), (long) each.getSize()));
        }
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("status", r.getStatus().name());
        out.put("next", r.getNextBeginOffset());
        out.put("min", r.getMinOffset());
        out.put("max", r.getMaxOffset());
        out.put("messages", found);
        r.release();
        return out;
    }

    private static Object id(String text) throws Exception {
        Map<String, Object> out = new LinkedHashMap<>();
        try {
            MessageId id = MessageDecoder.decodeMessageId(text);
            out.put("address", id.getAddress().toString());
            out.put("offset", id.getOffset());
        } catch (IllegalArgumentException refused) { // its tools then take it for a unique id
            out.put("offset", null);
        }
        out.put("ip", MessageClientIDSetter.getIPStrFromID(text));
        out.put("pid", MessageClientIDSetter.getPidFromID(text));
        out.put("time", MessageClientIDSetter.getNearlyTimeFromID(text).getTime());
        out.put("now", System.currentTimeMillis());
        return out;
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }
}
