package oracle;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.store.QueryMessageResult;

/**
 * QueryBench STORE KEYS WHAT: how long the broker's own classes take for a key, in nanoseconds. KEYS has
 * "topic TAB key" lines: the first WARM=10 only warm the code up, again and again. WHAT is index_cold
 * (IndexService#queryOffset), message_cold (DefaultMessageStore#queryMessage): the others once each, cold
 * if their pages are; or warm: PASSES=10 times each, behind as many that are not timed. One JSON object: index_cold;
 * message_cold; or index_warm, message_warm, and decoded_warm (MessageDecoder#decode of what queryMessage
 * gives); each with mean, p50, p99 and how many were found.
 */
public final class QueryBench {
    private static final int WARM = 10;
    private static final int PASSES = 10;

    private interface Lookup {
        int of(String topic, String key) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        Path dir = Path.of(args[0]);
        Kit.Setup setup = new Kit.Setup(dir, Kit.configOf(dir.resolveSibling(dir.getFileName() + ".facts"))).withTopicsOnDisk();
        setup.quick = true;
        Kit kit = Kit.open(setup);
        kit.awaitDispatch();
        String[][] keys = Files.readAllLines(Path.of(args[1])).stream().map(l -> l.split("\t")).toArray(String[][]::new);
        Object index = Query.indexOf(kit.store);
        Method queryOffset = index.getClass().getMethod("queryOffset", String.class, String.class, int.class, long.class, long.class);
        Method offsets = queryOffset.getReturnType().getMethod("getPhyOffsets");
        Lookup byIndex = (topic, key) -> ((List<?>) offsets.invoke(queryOffset.invoke(index, topic, key, 64, 0L, Long.MAX_VALUE))).size();
        Lookup byMessage = (topic, key) -> {
            QueryMessageResult r = kit.store.queryMessage(topic, key, 64, 0L, Long.MAX_VALUE);
            int found = r.getMessageBufferList().size();
            r.release();
            return found;
        };
        Lookup decoded = (topic, key) -> {
            QueryMessageResult r = kit.store.queryMessage(topic, key, 64, 0L, Long.MAX_VALUE);
            int found = 0;
            for (ByteBuffer each : r.getMessageBufferList()) {
                found += MessageDecoder.decode(each, true, false) != null ? 1 : 0;
            }
            r.release();
            return found;
        };
        for (Lookup each : new Lookup[] {byIndex, byMessage, decoded}) {
            for (int i = 0; i < 30_000; i++) {
                each.of(keys[i % WARM][0], keys[i % WARM][1]);
            }
        }
        String[][] fresh = Arrays.copyOfRange(keys, WARM, keys.length);
        Map<String, Object> out = new LinkedHashMap<>();
        switch (args[2]) {
            case "index_cold" -> out.put("index_cold", time(byIndex, fresh, 1));
            case "message_cold" -> out.put("message_cold", time(byMessage, fresh, 1));
            case "warm" -> {
                time(byIndex, fresh, PASSES);
                out.put("index_warm", time(byIndex, fresh, PASSES));
                time(byMessage, fresh, PASSES);
                out.put("message_warm", time(byMessage, fresh, PASSES));
                time(decoded, fresh, PASSES);
                out.put("decoded_warm", time(decoded, fresh, PASSES));
            }
            default -> throw new IllegalArgumentException(args[2]);
        }
        System.out.println(Json.of(out));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> time(Lookup lookup, String[][] keys, int passes) throws Exception {
        long[] nanos = new long[keys.length * passes];
        long found = 0;
        for (int i = 0; i < nanos.length; i++) {
            String[] each = keys[i % keys.length];
            long start = System.nanoTime();
            found += lookup.of(each[0], each[1]);
            nanos[i] = System.nanoTime() - start;
        }
        Arrays.sort(nanos);
        double mean = Arrays.stream(nanos).average().orElse(0);
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("mean", Math.round(mean));
        out.put("p50", nanos[nanos.length / 2]);
        out.put("p99", nanos[nanos.length * 99 / 100]);
        out.put("found", found);
        return out;
    }
}
