package oracle;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;

/**
 * Rebuild SEED COUNT STORES OUT [--mode=reput|default] [--go-on]: what the broker itself makes of the commitlog
 * and config of STORES/SEED, STORES/SEED+1, ... alone: the test of the generator, and of the claim
 * that a log determines its queues and index. With --go-on a store that it does not start on is
 * printed as "failed SEED WHY", and the others are rebuilt.
 */
public final class Rebuild {
    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        boolean reput = Kit.option(args, "mode", "reput").equals("reput");
        boolean goOn = Arrays.asList(args).contains("--go-on");
        long first = Long.parseLong(args[0]);
        // start() sleeps for a second when there is anything to dispatch: a few at a time.
        ExecutorService pool = Executors.newFixedThreadPool(6);
        List<Future<?>> all = new ArrayList<>();
        for (long seed = first; seed < first + Integer.parseInt(args[1]); seed++) {
            Path from = Path.of(args[2]).resolve(String.valueOf(seed));
            Path to = Path.of(args[3]).resolve(String.valueOf(seed));
            all.add(pool.submit(() -> {
                try {
                    rebuild(from, to, reput);
                } catch (Exception e) {
                    if (!goOn) {
                        throw e;
                    }
                    System.out.println("failed " + from.getFileName() + " " + e);
                }
                return null;
            }));
        }
        for (Future<?> f : all) {
            f.get();
        }
        System.exit(0);
    }

    private static void rebuild(Path from, Path to, boolean reput) throws Exception {
        copy(from.resolve("commitlog"), to.resolve("commitlog"));
        if (Files.exists(from.resolve("config"))) {
            copy(from.resolve("config"), to.resolve("config"));
        }
        Kit.Setup setup = new Kit.Setup(to, Kit.configOf(from.resolveSibling(from.getFileName() + ".facts"))).withTopicsOnDisk();
        setup.reputOnly = reput;
        setup.quick = true;
        // 5.4 and later look back over ten files only, and lose what is before them.
        setup.config.put("commitLogRecoverMaxNum", "1000000");
        Kit.open(setup).close();
    }

    static void copy(Path from, Path to) throws Exception {
        try (Stream<Path> s = Files.walk(from)) {
            for (Path p : (Iterable<Path>) s::iterator) {
                Path q = to.resolve(from.relativize(p).toString());
                if (Files.isDirectory(p)) {
                    Files.createDirectories(q);
                } else {
                    Files.copy(p, q);
                }
            }
        }
    }
}
