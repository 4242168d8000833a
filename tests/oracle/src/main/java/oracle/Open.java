package oracle;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;

/**
 * Open STORE [property=value ...]: the real broker's store opens what someone else built, reads every
 * message by its queues and by its keys, and tells what it changed and logged. One JSON object; the
 * exit code is 0 only if the store loaded, changed no file, had nothing left to dispatch, found
 * everything and logged nothing that a store of its own would not make it log.
 */
public final class Open {
    private static final String[] DERIVED = {"consumequeue", "consumequeue_ext", "batchconsumequeue", "index"};
    /**
     * What every clean start logs: the zeros behind the log's last record; the check of the queues
     * against the log's end, when they end together; and the HA service that it looks for. And what
     * our reading of an entry that fills a gap, offset 0 and size 2147483647, makes it log.
     */
    private static final Pattern USUAL = Pattern.compile("WARN (found a illegal magic code 0x0"
        + "|maxPhyOffsetOfConsumeQueue\\((\\d+)\\) >= processOffset\\(\\2\\), truncate dirty logic files"
        + "|selectMappedBuffer request pos invalid, request pos: 0, size: 2147483647, fileFromOffset: 0"
        // A timer asks a queue whose files are all full for what comes behind them.
        + "|Offset not matched. Request offset: (\\d+), firstOffset: \\d+, lastOffset: \\3, .*"
        + "|No resource file with name \\[META-INF/service/org.apache.rocketmq.store.ha.HAService\\] found."
        + "|Load default HA Service: DefaultHAService)");

    private final Path dir;
    private final Map<String, Object> out = new LinkedHashMap<>();
    private final List<String> problems = new ArrayList<>();
    private final Map<Long, MessageExt> records = new HashMap<>();
    private boolean dispatchesItsOwnTail;

    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        Open open = new Open(Path.of(args[0]));
        open.run(Kit.config(Map.of(), args, 1));
        System.out.println(Json.of(open.out));
        System.out.flush();
        System.exit(open.problems.isEmpty() ? 0 : 1);
    }

    private Open(Path dir) {
        this.dir = dir;
    }

    private void run(Map<String, String> config) throws Exception {
        Map<String, String> before = hashes();
        Log.scan(dir, m -> records.put(m.getCommitLogOffset(), m));
        List<String> log = new ArrayList<>();
        Compat.capture(log);
        Kit.Setup setup = new Kit.Setup(dir, config).withTopicsOnDisk();
        setup.quick = true;
        setup.config.putIfAbsent("maxMsgsNumBatch", String.valueOf(Integer.MAX_VALUE)); // a query's hits are cut to this
        Kit kit = new Kit(setup);
        List<Long> dispatched = new CopyOnWriteArrayList<>();
        kit.store.getDispatcherList().addLast(r -> dispatched.add(r.getCommitLogOffset()));
        boolean loaded = kit.store.load();
        out.put("load", loaded);
        Map<String, String> afterLoad = hashes();
        out.put("changed_by_load", changes(before, afterLoad));
        if (!loaded) {
            problems.add("load failed");
            finish(log, 0);
            return;
        }
        kit.store.start();
        long behind = kit.store.dispatchBehindBytes();
        kit.awaitDispatch();
        Map<String, String> afterStart = hashes();
        out.put("changed_by_start", changes(afterLoad, afterStart));
        out.put("dispatch_behind_bytes", behind);
        out.put("dispatched", dispatched.size());
        out.put("records", records.size());
        out.put("max_phy_offset", kit.store.getMaxPhyOffset());
        readQueues(kit);
        if (kit.config.isMessageIndexEnable()) {
            queryKeys(kit);
        }
        int loggedUntilHere = log.size();
        kit.close();
        out.put("changed_by_close", changes(afterStart, hashes()));
        if (behind > 0) {
            problems.add(behind + " bytes were left to dispatch");
        }
        // A broker starts from its queues, and so dispatches again what is behind the last record that
        // has a place in one, even if it did so before it was stopped: the index can get an item twice.
        long lastQueued = records.values().stream().filter(Log::isQueued).mapToLong(MessageExt::getCommitLogOffset).max().orElse(-1);
        dispatchesItsOwnTail = !dispatched.isEmpty() && dispatched.stream().allMatch(offset -> offset > lastQueued);
        if (!dispatched.isEmpty() && !dispatchesItsOwnTail) {
            problems.add(dispatched.size() + " records were dispatched again");
        }
        finish(log, loggedUntilHere);
    }

    /** log: what is logged at shutdown tells nothing of the store. */
    private void finish(List<String> log, int until) {
        Set<String> usual = new LinkedHashSet<>();
        List<String> unusual = new ArrayList<>();
        synchronized (log) {
            for (String line : until == 0 ? log : log.subList(0, until)) {
                (USUAL.matcher(line).matches() ? usual : unusual).add(line);
            }
        }
        out.put("log", unusual.subList(0, Math.min(50, unusual.size())));
        out.put("log_usual", usual);
        if (!unusual.isEmpty()) {
            problems.add(unusual.size() + " lines logged");
        }
        for (String stage : new String[] {"changed_by_load", "changed_by_start", "changed_by_close"}) {
            if (out.get(stage) instanceof List<?> list && !list.isEmpty()
                && !(dispatchesItsOwnTail && list.stream().allMatch(file -> file.toString().contains(" index/")))) {
                problems.add(list.size() + " files " + stage.replace('_', ' '));
            }
        }
        out.put("problems", problems.subList(0, Math.min(50, problems.size())));
        out.put("ok", problems.isEmpty());
    }

    /** Every entry of every queue must be the record it stands for; every record must be in its queue. */
    private void readQueues(Kit kit) throws Exception {
        Set<Long> unread = new HashSet<>();
        records.forEach((offset, m) -> {
            if (Log.isQueued(m)) {
                unread.add(offset);
            }
        });
        out.put("queued_records", unread.size());
        long read = 0;
        long byOthers = 0;
        long blanks = 0;
        for (Map.Entry<String, Set<Integer>> e : Compat.queues(kit.store).entrySet()) {
            String topic = e.getKey();
            for (int id : e.getValue()) {
                long max = kit.store.getMaxOffsetInQueue(topic, id);
                long next = kit.store.getMinOffsetInQueue(topic, id);
                while (next < max) {
                    GetMessageResult r = kit.store.getMessage("oracle", topic, id, next, 1, null);
                    if (r.getStatus() == GetMessageStatus.MESSAGE_WAS_REMOVING) {
                        // An entry that fills a gap stands for no record. The call has gone on behind it,
                        // but for speed, not for every record.
                        blanks++;
                        next++;
                        r.release();
                        continue;
                    }
                    if (r.getMessageMapedList().isEmpty() || r.getNextBeginOffset() <= next) {
                        problems.add("queue " + topic + " " + id + " at " + next + ": " + r.getStatus());
                        r.release();
                        break;
                    }
                    SelectMappedBufferResult hit = r.getMessageMapedList().get(0);
                    MessageExt m = MessageDecoder.decode(hit.getByteBuffer(), true, false);
                    MessageExt expected = records.get(hit.getStartOffset());
                    String where = "queue " + topic + " " + id + " at " + next + ": ";
                    if (m == null || expected == null || hit.getSize() != expected.getStoreSize()
                        || m.getCommitLogOffset() != hit.getStartOffset()) {
                        problems.add(where + "no record at " + hit.getStartOffset() + " of " + hit.getSize() + " bytes");
                    } else if (m.getTopic().equals(topic) && m.getQueueId() == id) {
                        read++;
                        unread.remove(hit.getStartOffset());
                        if (m.getQueueOffset() != next) {
                            problems.add(where + "the record at " + hit.getStartOffset() + " has queue offset " + m.getQueueOffset());
                        }
                    } else if (List.of(String.valueOf(m.getProperty("INNER_MULTI_DISPATCH")).split(",")).contains(topic)) {
                        byOthers++;
                    } else {
                        problems.add(where + "the record at " + hit.getStartOffset() + " is of " + m.getTopic() + " " + m.getQueueId());
                    }
                    next = r.getNextBeginOffset();
                    r.release();
                }
            }
        }
        out.put("read_by_queue", read);
        out.put("read_by_multi_dispatch", byOthers);
        out.put("blank_entries", blanks);
        out.put("not_in_queue", unread.size());
        if (!unread.isEmpty()) {
            problems.add(unread.size() + " records are not in their queue, the first at " + unread.stream().min(Long::compare).get());
        }
    }

    /**
     * Each key of each topic, once: all its records must be among the hits. First in the time its
     * records are from, a second of slack at either side; what that misses, in all time: an item's
     * time is that of its file's first one plus whole seconds, and of the first one of a file itself
     * it can be late by as much as lies between the two files.
     */
    private void queryKeys(Kit kit) {
        Map<String, Map<String, List<MessageExt>>> byKey = new TreeMap<>();
        for (MessageExt m : records.values()) {
            if (!Log.isIndexed(m)) {
                continue;
            }
            Set<String> keys = new HashSet<>();
            if (m.getProperty("UNIQ_KEY") != null) {
                keys.add(m.getProperty("UNIQ_KEY"));
            }
            if (m.getProperty("KEYS") != null) {
                keys.addAll(List.of(m.getProperty("KEYS").split(" ")));
            }
            keys.remove("");
            for (String key : keys) {
                byKey.computeIfAbsent(m.getTopic(), k -> new TreeMap<>()).computeIfAbsent(key, k -> new ArrayList<>()).add(m);
            }
        }
        long looked = 0;
        long near = 0;
        long far = 0;
        for (Map.Entry<String, Map<String, List<MessageExt>>> topic : byKey.entrySet()) {
            for (Map.Entry<String, List<MessageExt>> key : topic.getValue().entrySet()) {
                Set<Long> wanted = new HashSet<>();
                long begin = Long.MAX_VALUE;
                long end = 0;
                for (MessageExt m : key.getValue()) {
                    wanted.add(m.getCommitLogOffset());
                    begin = Math.min(begin, m.getStoreTimestamp());
                    end = Math.max(end, m.getStoreTimestamp());
                }
                looked += wanted.size();
                int all = wanted.size();
                int max = 100 + 2 * all; // other keys can have the same hash
                wanted.removeAll(query(kit, topic.getKey(), key.getKey(), max, begin - 1000, end + 1000));
                near += all - wanted.size();
                if (!wanted.isEmpty()) {
                    int missed = wanted.size();
                    wanted.removeAll(query(kit, topic.getKey(), key.getKey(), 10 * max, 0, Long.MAX_VALUE));
                    far += missed - wanted.size();
                }
                for (long offset : wanted) {
                    problems.add("key " + topic.getKey() + "#" + key.getKey() + " does not find the record at " + offset);
                }
            }
        }
        out.put("keys_looked_up", looked);
        out.put("keys_found", near + far);
        out.put("keys_found_only_far_in_time", far);
    }

    private static Set<Long> query(Kit kit, String topic, String key, int max, long begin, long end) {
        QueryMessageResult r = kit.store.queryMessage(topic, key, max, begin, end);
        Set<Long> hits = new HashSet<>();
        for (ByteBuffer hit : r.getMessageBufferList()) {
            hits.add(hit.getLong(28)); // the record's own physical offset
        }
        r.release();
        return hits;
    }

    private Map<String, String> hashes() throws Exception {
        Map<String, String> found = new TreeMap<>();
        for (String tree : DERIVED) {
            if (!Files.isDirectory(dir.resolve(tree))) {
                continue;
            }
            try (Stream<Path> s = Files.walk(dir.resolve(tree))) {
                for (Path p : (Iterable<Path>) s.filter(Files::isRegularFile)::iterator) {
                    byte[] hash = MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(p));
                    found.put(dir.relativize(p).toString(), HexFormat.of().formatHex(hash));
                }
            }
        }
        return found;
    }

    private static List<String> changes(Map<String, String> before, Map<String, String> after) {
        List<String> changes = new ArrayList<>();
        before.forEach((file, hash) -> {
            if (!after.containsKey(file)) {
                changes.add("removed " + file);
            } else if (!after.get(file).equals(hash)) {
                changes.add("changed " + file);
            }
        });
        after.keySet().stream().filter(f -> !before.containsKey(f)).forEach(f -> changes.add("added " + f));
        return changes;
    }
}
