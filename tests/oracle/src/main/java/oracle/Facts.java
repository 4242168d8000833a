package oracle;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;

/**
 * Facts STORE: what is in a commitlog, as RocketMQ's own decoder reads it. One JSON object:
 * records; topics (records of each); bodies, the SHA-256 over, for each record in the log's order, its
 * physical offset (8 bytes, big-endian), the length of its body (4 bytes) and its body as stored; and
 * queues: topic, then queue id, then records, min and max queue offset of the records that have a
 * place in a queue (those of transaction type PREPARED and ROLLBACK have none).
 */
public final class Facts {
    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        MessageDigest bodies = MessageDigest.getInstance("SHA-256");
        Map<String, Long> topics = new TreeMap<>();
        Map<String, Map<Integer, Map<String, Long>>> queues = new TreeMap<>();
        long[] records = {0};
        Log.scan(Path.of(args[0]), m -> {
            records[0]++;
            byte[] body = m.getBody() == null ? new byte[0] : m.getBody();
            bodies.update(ByteBuffer.allocate(12).putLong(m.getCommitLogOffset()).putInt(body.length).array());
            bodies.update(body);
            topics.merge(m.getTopic(), 1L, Long::sum);
            if (Log.isQueued(m)) {
                Map<String, Long> q = queues.computeIfAbsent(m.getTopic(), k -> new TreeMap<>())
                    .computeIfAbsent(m.getQueueId(), k -> new TreeMap<>());
                q.merge("records", 1L, Long::sum);
                q.merge("min", m.getQueueOffset(), Math::min);
                q.merge("max", m.getQueueOffset(), Math::max);
            }
        });
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("records", records[0]);
        out.put("topics", topics);
        out.put("bodies", HexFormat.of().formatHex(bodies.digest()));
        out.put("queues", queues);
        System.out.println(Json.of(out));
        System.exit(0);
    }
}
