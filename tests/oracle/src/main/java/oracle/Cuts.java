package oracle;

import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;

/**
 * Cuts SEED COUNT DIR: random stores DIR/SEED, ... whose log was cut by the broker's own classes, once or
 * several times, and written on: by truncateFiles, as a replica's is on a change of master (5.x); by a
 * recovery that meets a record that a power cut has damaged, closed in order or not; by one that meets a
 * record which the broker itself cannot read (5.x). Records are of one size, so that those of old may line
 * up with new ones, or of many. Each store is closed in order at last, or left as a killed broker leaves it.
 */
public final class Cuts {
    private static final class Clock extends SystemClock {
        private volatile long now = 1_700_000_000_000L;

        @Override
        public long now() {
            return now;
        }
    }

    private final Random rnd;
    private final Path dir;
    private final Clock clock = new Clock();
    private final Map<String, String> config = new TreeMap<>();
    private final List<Long> offsets = new ArrayList<>();
    private final boolean sameSize;
    private Kit kit;
    private int key;

    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        long first = Long.parseLong(args[0]);
        for (long seed = first; seed < first + Integer.parseInt(args[1]); seed++) {
            new Cuts(seed, Path.of(args[2]).resolve(String.valueOf(seed))).write();
        }
        System.exit(0);
    }

    private Cuts(long seed, Path dir) {
        rnd = new Random(seed * 0x9E3779B97F4A7C15L);
        this.dir = dir;
        sameSize = rnd.nextBoolean();
        config.put("mappedFileSizeCommitLog", String.valueOf(rnd.nextBoolean() ? 65536 : 1 << 20));
        config.put("mappedFileSizeConsumeQueue", String.valueOf(20 * (rnd.nextBoolean() ? 1000 : 20 + rnd.nextInt(60))));
        config.put("maxHashSlotNum", String.valueOf(5 + rnd.nextInt(300)));
        config.put("maxIndexNum", String.valueOf(rnd.nextBoolean() ? 100_000 : 40 + rnd.nextInt(400)));
    }

    private void write() throws Exception {
        Kit.Setup setup = new Kit.Setup(dir, config);
        setup.clock = clock;
        setup.quick = true;
        open(setup);
        many(10 + rnd.nextInt(400));
        int cuts = 1 + rnd.nextInt(3);
        for (int i = 0; i < cuts; i++) {
            kit.awaitDispatch();
            int keep = rnd.nextInt(4) == 0 ? rnd.nextInt(offsets.size()) : offsets.size() - 1 - rnd.nextInt(Math.min(offsets.size(), 40));
            clock.now += 10_000;
            int how = rnd.nextInt(Compat.V5 ? 3 : 1);
            if (how == 0) {
                reopenAfterDamage(setup, keep);
            } else if (how == 1 || !poison()) {
                truncate(offsets.get(keep));
                forget(keep);
            } else {
                many(rnd.nextInt(20)); // after the record that no recovery passes
                close(false);
                open(setup);
                forget(kit.store.getMaxPhyOffset());
            }
            // One at least: what a recovery met stands there until it is written over.
            many(1 + (rnd.nextInt(3) == 0 ? rnd.nextInt(5) : rnd.nextInt(80)));
        }
        long end = kit.store.getMaxPhyOffset();
        setup.persistTopics();
        close(rnd.nextInt(4) == 0);
        kit.writeFacts(new LinkedHashMap<>(), end);
        System.out.println(dir.getFileName() + " " + end);
    }

    private void open(Kit.Setup setup) throws Exception {
        kit = Kit.open(setup);
        kit.awaitDispatch();
    }

    /** isKilled: the mark of a store that was not closed in order stays. */
    private void close(boolean isKilled) throws Exception {
        kit.close();
        if (isKilled) {
            Files.createFile(dir.resolve("abort"));
        }
    }

    private void many(int count) {
        for (int i = 0; i < count; i++) {
            clock.now += 1 + rnd.nextInt(3);
            Compat.Msg m = kit.msg("topic-" + rnd.nextInt(3), rnd.nextInt(2), new byte[sameSize ? 40 : 20 + rnd.nextInt(70)]);
            m.setTags(rnd.nextBoolean() ? "TagA" : "TagB");
            String name = String.valueOf(1_000_000 + key++);
            m.setKeys("key" + name);
            Kit.prop(m, "UNIQ_KEY", "U" + name);
            offsets.add(kit.put(m).getAppendMessageResult().getWroteOffset());
        }
    }

    /** The bytes that a power cut has lost: a recovery ends there. */
    private void reopenAfterDamage(Kit.Setup setup, int keep) throws Exception {
        close(rnd.nextBoolean());
        long at = offsets.get(keep);
        long size = Long.parseLong(config.get("mappedFileSizeCommitLog"));
        Path file = dir.resolve("commitlog").resolve(String.format("%020d", at - at % size));
        try (RandomAccessFile f = new RandomAccessFile(file.toFile(), "rw")) {
            f.seek(at % size + 100); // in its body
            f.write(new byte[] {1, 2, 3});
        }
        open(setup);
        forget(kit.store.getMaxPhyOffset());
    }

    /** A record that the broker stores, and cannot read: its batch size is no short. */
    private boolean poison() {
        clock.now += 1;
        Compat.Msg m = kit.msg("topic-0", 0, new byte[40]);
        PutMessageResult r = kit.tryPut(m, "INNER_NUM\u000140000\u0002INNER_BASE\u00011\u0002");
        return r.isOk();
    }

    private void truncate(long offset) throws ReflectiveOperationException {
        // 4.9 has no such method.
        DefaultMessageStore.class.getMethod("truncateFiles", long.class).invoke(kit.store, offset);
    }

    private void forget(int keep) {
        offsets.subList(keep, offsets.size()).clear();
    }

    private void forget(long end) {
        offsets.removeIf(offset -> offset >= end);
    }
}
