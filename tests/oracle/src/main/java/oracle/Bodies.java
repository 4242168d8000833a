package oracle;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Bodies IN OUT: what RocketMQ's decoder makes of bodies. IN has for each: 4 bytes sysFlag, 4 bytes
 * length, the body as stored, integers big-endian. OUT has for each: 4 bytes length and the body as a
 * consumer gets it; -1 where the message is not decoded at all, -2 where it has no body.
 */
public final class Bodies {
    private static final int MAGIC_V1 = -626843481;
    private static final int EMPTY = 91;

    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        Path in = Path.of(args[0]);
        try (DataInputStream bodies = new DataInputStream(new BufferedInputStream(Files.newInputStream(in)));
             DataOutputStream out = new DataOutputStream(
                 new BufferedOutputStream(Files.newOutputStream(Path.of(args[1]))))) {
            for (long left = Files.size(in); left > 0; ) {
                int sysFlag = bodies.readInt();
                byte[] stored = new byte[bodies.readInt()];
                bodies.readFully(stored);
                left -= 8 + stored.length;
                MessageExt message = MessageDecoder.decode(record(sysFlag, stored), true, true);
                byte[] body = message == null ? null : message.getBody();
                out.writeInt(message == null ? -1 : body == null ? -2 : body.length);
                if (body != null) {
                    out.write(body);
                }
            }
        }
        System.exit(0);
    }

    /** A record of topic T with IPv4 hosts and no properties. */
    private static ByteBuffer record(int sysFlag, byte[] body) {
        ByteBuffer record = ByteBuffer.allocate(EMPTY + body.length + 1);
        record.putInt(record.capacity()).putInt(MAGIC_V1).putInt(0).putInt(0).putInt(0);
        record.putLong(0).putLong(0).putInt(sysFlag).putLong(1);
        record.putInt(0x7F000001).putInt(10911).putLong(1).putInt(0x7F000001).putInt(10911);
        record.putInt(0).putLong(0).putInt(body.length).put(body);
        record.put((byte) 1).put((byte) 'T').putShort((short) 0);
        record.flip();
        return record;
    }
}
