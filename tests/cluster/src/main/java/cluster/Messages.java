package cluster;

import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What is sent: everything about a message follows from its key, so a consumer can tell whether it is right. */
final class Messages {
    static final String PLAIN = "ClusterPlain";
    static final String BATCH = "ClusterBatch";
    static final String DELAY = "ClusterDelay";
    static final String TRANSACTION = "ClusterTransaction";
    static final String RETRY = "ClusterRetry";
    static final String[] TOPICS = {PLAIN, BATCH, DELAY, TRANSACTION, RETRY};
    static final String GROUP = "ClusterGroup";
    private static final String[] TAGS = {"TagA", "TagB", "created", "paid", "订单", "x-long-tag-0123456789"};
    // zlib in the client begins at 4096 bytes.
    private static final int COMPRESSED = 6000;
    private static final int LONG = 2000;
    private static final String LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz".repeat(7);

    private Messages() {
    }

    /** Message `number` of a topic; `session` keeps apart what several runs send. */
    static Message message(String topic, String session, long number) {
        String key = topic + "-" + session + "-" + number;
        String keys = number % 13 == 0 ? key + " shared" + number / 200 + " 键" + number : key;
        Message message = new Message(topic, body(key));
        if (number % 11 != 0) {
            message.setTags(TAGS[(int) (number % TAGS.length)]);
        }
        message.setKeys(keys);
        return message;
    }

    static boolean isRight(MessageExt message) {
        return message.getKeys() != null && java.util.Arrays.equals(message.getBody(), body(key(message)));
    }

    static String key(MessageExt message) {
        return message.getKeys().split(" ")[0];
    }

    private static byte[] body(String key) {
        Random random = new Random(key.hashCode());
        int kind = random.nextInt(400);
        int size = kind == 0 ? COMPRESSED : kind < 5 ? LONG : 60 + random.nextInt(100);
        StringBuilder text = new StringBuilder(key).append(':');
        while (text.length() < size) {
            int at = random.nextInt(36);
            text.append(LETTERS, at, at + Math.min(200, size - text.length()));
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }
}
