package oracle;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;

/**
 * Live DIR [--rate=1000] [--seconds=20] [--look=10000] [--times=FILE]: putMessage's return to the message's consume
 * queue entry, looked for each so many ns. FILE gets System.nanoTime() of each return, then of each entry, big-endian.
 */
public final class Live {
    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        int rate = Integer.parseInt(Kit.option(args, "rate", "1000"));
        int n = rate * Integer.parseInt(Kit.option(args, "seconds", "20"));
        int warm = n / 4;
        long look = Long.parseLong(Kit.option(args, "look", "10000"));
        String times = Kit.option(args, "times", "");
        Kit kit = Kit.open(new Kit.Setup(Path.of(args[0]), Kit.config(Map.of(), args, 1)));
        long[] put = new long[n];
        long[] visible = new long[n];
        Thread poller = new Thread(() -> {
            int seen = 0;
            while (seen < n) {
                long max;
                try {
                    max = kit.store.getMaxOffsetInQueue("latency", 0);
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
                long now = System.nanoTime();
                while (seen < max) {
                    visible[seen++] = now;
                }
                LockSupport.parkNanos(look);
            }
        }, "poller");
        poller.start();
        byte[] body = new byte[300];
        long t = System.nanoTime();
        for (int i = 0; i < n; i++) {
            Compat.Msg m = kit.msg("latency", 0, body);
            m.setTags("t");
            m.setKeys("k" + i);
            kit.put(m);
            put[i] = System.nanoTime();
            t += 1_000_000_000L / rate;
            while (System.nanoTime() < t) {
                LockSupport.parkNanos(50_000);
            }
        }
        poller.join();
        if (!times.isEmpty()) {
            ByteBuffer raw = ByteBuffer.allocate(16 * n);
            raw.asLongBuffer().put(put).put(visible);
            Files.write(Path.of(times), raw.array());
        }
        double[] ms = new double[n - warm];
        for (int i = warm; i < n; i++) {
            ms[i - warm] = Math.max(0, visible[i] - put[i]) / 1e6;
        }
        Arrays.sort(ms);
        System.out.printf(Locale.ROOT, "{\"rate\":%d,\"n\":%d,\"cfg\":\"%s\",\"p50_ms\":%.3f,\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"max_ms\":%.3f}%n",
            rate, ms.length, Kit.config(Map.of(), args, 1), ms[ms.length / 2], ms[ms.length * 9 / 10], ms[ms.length * 99 / 100],
            ms[ms.length * 999 / 1000], ms[ms.length - 1]);
        kit.close();
        System.exit(0);
    }
}
