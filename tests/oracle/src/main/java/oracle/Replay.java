package oracle;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import org.apache.rocketmq.store.DefaultMessageStore;

/**
 * Replay DIR [--mode=default|reput] [property=value ...]: opens a store that has a commitlog and
 * times the rebuild of the rest. mode=default is the broker as it is (5.x rebuilds inside load(),
 * on the recovering thread; 4.9 in ReputMessageService); mode=reput makes 5.x's ReputMessageService
 * do it all.
 */
public final class Replay {
    private static final class Meter {
        long first;
        volatile long last;
        volatile long count;
        long bytes;
        String thread;
    }

    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        String mode = Kit.option(args, "mode", "default");
        Map<String, String> cfg = Kit.config(Map.of(), args, 1);
        Kit.Setup setup = new Kit.Setup(Path.of(args[0]), cfg).withTopicsOnDisk();
        setup.reputOnly = mode.equals("reput");
        Kit kit = new Kit(setup);
        DefaultMessageStore store = kit.store;
        Meter meter = new Meter();
        store.getDispatcherList().addLast(r -> {
            if (meter.first == 0) {
                meter.first = System.nanoTime();
                meter.thread = Thread.currentThread().getName();
            }
            meter.bytes += r.getMsgSize();
            meter.last = System.nanoTime();
            meter.count = meter.count + 1;
        });
        OperatingSystemMXBean os = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpu0 = os.getProcessCpuTime();
        long t0 = System.nanoTime();
        if (!store.load()) {
            throw new IllegalStateException("load failed");
        }
        long t1 = System.nanoTime();
        long inLoad = meter.count;
        long cpu1 = os.getProcessCpuTime();
        Thread starter = new Thread(() -> {
            try {
                store.start();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }, "starter");
        starter.start();
        long seen = -1;
        long cpu2 = cpu1;
        long quiet = System.nanoTime();
        while (starter.isAlive() || store.dispatchBehindBytes() > 0 || System.nanoTime() - quiet < 1_500_000_000L) {
            Thread.sleep(5);
            if (meter.count != seen) {
                seen = meter.count;
                quiet = System.nanoTime();
                cpu2 = os.getProcessCpuTime();
            }
        }
        boolean byLoad = meter.count == inLoad;
        double load = (t1 - t0) / 1e9;
        double total = byLoad ? load : (meter.last - t0) / 1e9;
        double work = byLoad ? load : (meter.last - t1) / 1e9;
        double cpu = ((byLoad ? cpu1 : cpu2) - (byLoad ? cpu0 : cpu1)) / 1e9;
        System.out.printf(Locale.ROOT, "{\"mode\":\"%s\",\"cfg\":\"%s\",\"messages\":%d,\"bytes\":%d,\"dispatched_in_load\":%d,"
                + "\"thread\":\"%s\",\"load_s\":%.3f,\"dispatch_s\":%.3f,\"total_s\":%.3f,\"msg_per_s\":%.0f,\"mb_per_s\":%.1f,"
                + "\"total_msg_per_s\":%.0f,\"cpu_s\":%.2f,\"cpu_cores\":%.2f,\"peak_rss_mb\":%d,\"rss_anon_mb\":%d,\"rss_file_mb\":%d}%n",
            mode, cfg, meter.count, meter.bytes, inLoad, meter.thread, load, work, total, meter.count / work, meter.bytes / 1e6 / work,
            meter.count / total, cpu, cpu / work, Kit.procStatusKb("VmHWM") / 1024, Kit.procStatusKb("RssAnon") / 1024,
            Kit.procStatusKb("RssFile") / 1024);
        kit.close();
        System.exit(0);
    }
}
