package cluster;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageDecoder;

/** What is in a commitlog according to the client's own decoder: records by topic. */
final class LogScan {
    private static final int BLANK = 0xCBD43194;
    private static final int RECORD = 0xDAA320A7;
    private static final int LONG_TOPIC = 0xDAA320AB;

    private LogScan() {
    }

    static Map<String, Long> records(Path directory) throws Exception {
        Map<String, Long> topics = new TreeMap<>();
        List<Path> files;
        try (var list = Files.list(directory)) {
            files = list.sorted().toList();
        }
        for (Path file : files) {
            scan(ByteBuffer.wrap(Files.readAllBytes(file)), topics);
        }
        return topics;
    }

    private static void scan(ByteBuffer bytes, Map<String, Long> topics) {
        while (bytes.remaining() > 8) {
            int at = bytes.position();
            int size = bytes.getInt(at);
            int magic = bytes.getInt(at + 4);
            if (magic == BLANK || magic != RECORD && magic != LONG_TOPIC) {
                return;
            }
            topics.merge(MessageDecoder.decode(bytes.slice(at, size), false, false, false).getTopic(), 1L, Long::sum);
            bytes.position(at + size);
        }
    }
}
