package cluster;

import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What a broker says of its queues. */
final class Queues {
    private Queues() {
    }

    /** By topic and queue: smallest and largest offset (exclusive), of those that ever had a message. */
    static Map<String, Map<Integer, long[]>> of(DefaultMQAdminExt admin) throws Exception {
        Map<String, Map<Integer, long[]>> found = new TreeMap<>();
        for (String topic : new TreeSet<>(admin.fetchAllTopicList().getTopicList())) {
            Map<Integer, long[]> queues = new TreeMap<>();
            try {
                admin.examineTopicStats(topic).getOffsetTable().forEach((queue, offsets) -> {
                    if (offsets.getMaxOffset() > 0) {
                        queues.put(queue.getQueueId(), new long[] {offsets.getMinOffset(), offsets.getMaxOffset()});
                    }
                });
            } catch (MQClientException | MQBrokerException noRoute) {
                // Names that are kept for clusters and the like have no queues anywhere.
                continue;
            }
            if (!queues.isEmpty()) {
                found.put(topic, queues);
            }
        }
        return found;
    }

    /** Whether the broker made the topic for its own ends; a client subscribes to the others. */
    static boolean isSystem(String topic) {
        return topic.startsWith("rmq_sys_") || topic.startsWith("RMQ_SYS_") || topic.startsWith("TRANS_CHECK_MAX")
            || topic.startsWith(MixAll.RETRY_GROUP_TOPIC_PREFIX) || topic.startsWith(MixAll.DLQ_GROUP_TOPIC_PREFIX)
            || topic.equals("SCHEDULE_TOPIC_XXXX") || topic.equals("OFFSET_MOVED_EVENT");
    }
}
