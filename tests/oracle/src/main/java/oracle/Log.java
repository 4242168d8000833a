package oracle;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/** Reads a commitlog that no store need be open for: its files in order, record after record. */
final class Log {
    private static final int V1 = 0xDAA320A7;
    private static final int V2 = 0xDAA320AB;
    private static final int BLANK = 0xCBD43194;

    private Log() { }

    static void scan(Path store, Consumer<MessageExt> each) throws IOException {
        List<Path> files;
        try (Stream<Path> s = Files.list(store.resolve("commitlog"))) {
            files = s.sorted().toList();
        }
        for (Path file : files) {
            ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(file));
            long start = Long.parseLong(file.getFileName().toString());
            while (true) {
                if (data.remaining() < 8) {
                    return;
                }
                int at = data.position();
                int size = data.getInt(at);
                int magic = data.getInt(at + 4);
                if (magic == BLANK) {
                    break;
                }
                if (magic != V1 && magic != V2) {
                    return;
                }
                MessageExt m = MessageDecoder.decode(data.slice(at, size), true, false);
                if (m == null || m.getCommitLogOffset() != start + at || m.getStoreSize() != size) {
                    throw new IOException("no record at " + (start + at) + " of " + file);
                }
                each.accept(m);
                data.position(at + size);
            }
        }
    }

    /** Whether the record has a place in a queue: those of type PREPARED and ROLLBACK have none. */
    static boolean isQueued(MessageExt m) {
        return (m.getSysFlag() & 0xC) == 0 || (m.getSysFlag() & 0xC) == 0x8;
    }

    static boolean isIndexed(MessageExt m) {
        return (m.getSysFlag() & 0xC) != 0xC;
    }
}
