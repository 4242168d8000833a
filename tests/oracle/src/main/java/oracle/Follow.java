package oracle;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.store.CommitLog;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;

/**
 * Follow: does what it is told on standard input, a line each, and answers each with a line of JSON on
 * standard output: many stores, opened, written to, cut and closed in one process. Words are separated
 * by tabs, their parts by blanks; texts and bytes are base64.
 *
 * <pre>
 * open DIR k=v,k=v TOPIC=TYPE,...   opens a store; its log's begin and end
 * put DIR MESSAGE...                MESSAGE: clock topic queue flag sysflag properties body born; what became of each
 * close DIR                         stops the broker in order
 * crash DIR                         has the files stay as they are at this moment
 * cut DIR OFFSET                    DefaultMessageStore#truncateFiles, or what it does where there is none
 * expire DIR COUNT                  removes the oldest files of the log
 * where DIR                         the log's begin and end
 * queues DIR                        [topic, queue, min, max] of each
 * ask DIR REQUEST...                answers of Query; the words of a request separated by blanks
 * rebuild FROM TO k=v,... TOPIC=TYPE,...   the broker's own rebuild from commitlog and config
 * </pre>
 */
public final class Follow {
    /** The time is what was said last. */
    private static final class Clock extends SystemClock {
        private volatile long now = 1_700_000_000_000L;

        @Override
        public long now() {
            return now;
        }
    }

    private static final class Running {
        Kit kit;
        Kit.Setup setup;
        Clock clock;
    }

    private final Map<String, Running> running = new HashMap<>();

    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        PrintStream out = System.out;
        System.setOut(System.err); // what the store prints
        Follow follow = new Follow();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object answer;
            try {
                answer = follow.obey(line.split("\t", -1));
            } catch (Throwable e) {
                e.printStackTrace();
                Throwable cause = e.getCause() == null ? e : e.getCause();
                answer = Map.of("error", e + " / " + cause);
            }
            out.println(Json.of(answer));
            out.flush();
        }
        System.exit(0);
    }

    private Object obey(String[] w) throws Exception {
        switch (w[0]) {
            case "open":
                return open(w[1], w[2], w[3]);
            case "put":
                List<Object> results = new ArrayList<>();
                for (int i = 2; i < w.length; i++) {
                    results.add(put(of(w[1]), w[i].split(" ", -1)));
                }
                of(w[1]).kit.awaitDispatch();
                return results;
            case "close":
                running.remove(w[1]).kit.close();
                return Map.of();
            case "crash":
                return crash(w[1]);
            case "cut":
                of(w[1]).kit.awaitDispatch();
                Object done = Compat.truncate(of(w[1]).kit.store, Long.parseLong(w[2]));
                of(w[1]).kit.awaitDispatch();
                return Map.of("done", done);
            case "expire":
                return expire(of(w[1]).kit.store, Integer.parseInt(w[2]));
            case "where":
                return where(of(w[1]));
            case "queues":
                return queues(of(w[1]));
            case "ask":
                Query query = new Query(of(w[1]).kit);
                List<Object> answers = new ArrayList<>();
                for (int i = 2; i < w.length; i++) {
                    try {
                        answers.add(query.answer(w[i].split(" ", -1)));
                    } catch (Exception | OutOfMemoryError e) { // the broker's own: it reads what it has cut
                        answers.add(Map.of("thrown", e.toString()));
                    }
                }
                return answers;
            case "rebuild":
                return rebuild(Path.of(w[1]), Path.of(w[2]), w[3], w[4]);
            default:
                throw new IllegalArgumentException(w[0]);
        }
    }

    private Running of(String dir) {
        Running r = running.get(dir);
        if (r == null) {
            throw new IllegalStateException("not open: " + dir);
        }
        return r;
    }

    private static Kit.Setup setup(Path dir, String properties, String topics, Clock clock) throws Exception {
        Map<String, String> config = new TreeMap<>();
        for (String pair : properties.split(",")) {
            int eq = pair.indexOf('=');
            config.put(pair.substring(0, eq), pair.substring(eq + 1));
        }
        config.put("commitLogRecoverMaxNum", "1000000"); // 5.4 and later look back over ten files only
        config.put("maxMsgsNumBatch", String.valueOf(Integer.MAX_VALUE));
        Kit.Setup setup = new Kit.Setup(dir, config).withTopicsOnDisk();
        for (String pair : topics.isEmpty() ? new String[0] : topics.split(",")) {
            int eq = pair.indexOf('=');
            setup.topic(pair.substring(0, eq), pair.substring(eq + 1));
        }
        setup.clock = clock;
        setup.quick = true;
        return setup;
    }

    private static Kit start(Kit.Setup setup) throws Exception {
        Kit.isStarting.set(true);
        try {
            Kit kit = Kit.open(setup);
            kit.awaitDispatch();
            return kit;
        } finally {
            Kit.isStarting.set(false);
        }
    }

    private Object open(String dir, String properties, String topics) throws Exception {
        Running r = new Running();
        r.clock = new Clock();
        r.setup = setup(Path.of(dir), properties, topics, r.clock);
        r.kit = start(r.setup);
        r.setup.persistTopics();
        running.put(dir, r);
        return where(r);
    }

    private static Object where(Running r) {
        return List.of(r.kit.store.getMinPhyOffset(), r.kit.store.getMaxPhyOffset());
    }

    private static Object put(Running r, String[] m) {
        r.clock.now = Long.parseLong(m[0]);
        Compat.Msg msg = r.kit.msg(text(m[1]), Integer.parseInt(m[2]), Base64.getDecoder().decode(m[6]));
        msg.setFlag(Integer.parseInt(m[3]));
        msg.setSysFlag(Integer.parseInt(m[4]));
        msg.setBornTimestamp(Long.parseLong(m[7]));
        // Not as properties: the store would act on some of them, and write all of them again.
        msg.setPropertiesString(text(m[5]));
        PutMessageResult result = r.kit.store.putMessage(msg);
        if (!result.isOk()) {
            return List.of(result.getPutMessageStatus().name());
        }
        r.kit.messages++;
        return List.of("PUT_OK", result.getAppendMessageResult().getWroteOffset(), result.getAppendMessageResult().getWroteBytes(),
            result.getAppendMessageResult().getLogicsOffset());
    }

    private static Object queues(Running r) throws Exception {
        List<Object> found = new ArrayList<>();
        for (Map.Entry<String, Set<Integer>> e : Compat.queues(r.kit.store).entrySet()) {
            for (int id : e.getValue()) {
                found.add(List.of(e.getKey(), id, r.kit.store.getMinOffsetInQueue(e.getKey(), id),
                    r.kit.store.getMaxOffsetInQueue(e.getKey(), id)));
            }
        }
        return found;
    }

    /** The files, the same ones, as they are now, whatever the store still does when it is shut down. */
    private Object crash(String dir) throws Exception {
        Running r = running.remove(dir);
        r.kit.awaitDispatch();
        Path store = Path.of(dir);
        Path kept = store.resolveSibling(store.getFileName() + ".crashed");
        Rebuild.copy(store, kept);
        r.kit.close();
        Set<Path> there = new HashSet<>();
        try (Stream<Path> s = Files.walk(kept)) {
            for (Path from : (Iterable<Path>) s::iterator) {
                Path to = store.resolve(kept.relativize(from).toString());
                there.add(to);
                if (Files.isDirectory(from)) {
                    Files.createDirectories(to);
                } else if (!Files.exists(to) || Files.mismatch(from, to) >= 0) {
                    Files.write(to, Files.readAllBytes(from)); // into the file that readers have open
                }
            }
        }
        remove(store, there);
        remove(kept, Set.of());
        return Map.of();
    }

    private static void remove(Path root, Set<Path> but) throws Exception {
        try (Stream<Path> s = Files.walk(root)) {
            for (Path p : (Iterable<Path>) s.sorted(Comparator.reverseOrder())::iterator) {
                if (!but.contains(p)) {
                    Files.delete(p);
                }
            }
        }
    }

    private static Object expire(DefaultMessageStore store, int count) throws Exception {
        Field field = CommitLog.class.getDeclaredField("mappedFileQueue");
        field.setAccessible(true);
        Object queue = field.get(store.getCommitLog());
        List<?> files = (List<?>) queue.getClass().getMethod("getMappedFiles").invoke(queue);
        List<Object> gone = new ArrayList<>(files.subList(0, Math.min(count, Math.max(files.size() - 1, 0))));
        for (Object file : gone) {
            file.getClass().getMethod("destroy", long.class).invoke(file, 1000L);
        }
        Method delete = queue.getClass().getDeclaredMethod("deleteExpiredFile", List.class);
        delete.setAccessible(true);
        delete.invoke(queue, gone);
        // What the broker's cleaning does next: queues and index files end where the log begins.
        long begin = store.getMinPhyOffset();
        for (Object table : store.getConsumeQueueTable().values()) {
            for (Object logic : ((Map<?, ?>) table).values()) {
                logic.getClass().getMethod("deleteExpiredFile", long.class).invoke(logic, begin);
            }
        }
        Object index = Query.indexOf(store);
        index.getClass().getMethod("deleteExpiredFile", long.class).invoke(index, begin);
        return Map.of("gone", gone.size());
    }

    private static Object rebuild(Path from, Path to, String properties, String topics) throws Exception {
        for (String part : new String[] {"commitlog", "config"}) {
            if (Files.exists(from.resolve(part))) {
                Rebuild.copy(from.resolve(part), to.resolve(part));
            }
        }
        Kit.Setup setup = setup(to, properties, topics, new Clock());
        setup.reputOnly = true;
        Kit kit = start(setup);
        Object end = kit.store.getMaxPhyOffset();
        kit.close();
        return end;
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }
}
