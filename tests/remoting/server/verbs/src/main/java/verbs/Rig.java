package verbs;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/**
 * Does what each line of standard input says, and answers with a line: the text that came out, in
 * base64. A line is words with tabs between them: mqadmin WORD..., fill VERSION, online, taken, close.
 */
public final class Rig {
    private Rig() {}

    private static final class Exit extends SecurityException {
        private static final long serialVersionUID = 1L;
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("rocketmq.namesrv.addr", args[0]);
        PrintStream answers = System.out;
        // Tools end the process where they do not like their options.
        System.setSecurityManager(new SecurityManager() {
            @Override
            public void checkPermission(Permission permission) {}

            @Override
            public void checkPermission(Permission permission, Object context) {}

            @Override
            public void checkExit(int status) {
                throw new Exit();
            }
        });
        hurry(Thread.currentThread());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream to = new PrintStream(said, true, StandardCharsets.UTF_8);
            System.setOut(to);
            System.setErr(to);
            try {
                perform(line.split("\t", -1), to, args[0]);
            } catch (Exit ended) {
                to.println("exit");
            } catch (Throwable error) {
                error.printStackTrace(to);
            }
            to.flush();
            answers.println("=" + Base64.getEncoder().encodeToString(said.toByteArray()));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** A client that ends waits up to 3 s for a thread of its own to look up; this wakes it. */
    private static void hurry(Thread main) {
        Thread waker = new Thread(() -> {
            while (true) {
                if (Arrays.stream(main.getStackTrace()).anyMatch(Rig::ends)) {
                    Thread[] threads = new Thread[main.getThreadGroup().activeCount() + 16];
                    int count = main.getThreadGroup().enumerate(threads);
                    for (int i = 0; i < count; i++) {
                        if (threads[i].getName().startsWith("NettyEventExecutor")) {
                            threads[i].interrupt();
                        }
                    }
                }
                LockSupport.parkNanos(20_000_000);
            }
        });
        waker.setDaemon(true);
        waker.start();
    }

    private static boolean ends(StackTraceElement at) {
        return at.getClassName().endsWith("ServiceThread") && at.getMethodName().equals("shutdown");
    }

    private static void perform(String[] words, PrintStream to, String names) throws Exception {
        switch (words[0]) {
            case "mqadmin" -> mqadmin(Arrays.copyOfRange(words, 1, words.length), names);
            case "fill" -> Fill.run(words[1].startsWith("5"));
            case "online" -> Clients.online();
            case "taken" -> to.print(Clients.TAKEN.get());
            case "close" -> Clients.close();
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static void mqadmin(String[] words, String names) throws Exception {
        Class<?> startup = Class.forName("org.apache.rocketmq.tools.command.MQAdminStartup");
        for (Field each : startup.getDeclaredFields()) {
            if (List.class.isAssignableFrom(each.getType())) {
                each.setAccessible(true);
                ((List<?>) each.get(null)).clear();
            }
        }
        System.setProperty("rocketmq.namesrv.addr", names);
        startup.getMethod("main", String[].class).invoke(null, (Object) words);
    }
}
