package oracle;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import org.apache.rocketmq.broker.filter.ConsumerFilterData;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.broker.filter.ExpressionMessageFilter;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.store.ConsumeQueueExt;
import org.apache.rocketmq.store.MessageFilter;

/**
 * Filters IN OUT: what the broker's filters make of expressions. A line of IN is words with tabs
 * between them; every text in it is base64 of UTF-8. A line of OUT answers it.
 *
 *   SQL92 expression map...         T, F, N (null) or !class for each map of properties; if the
 *                                   expression is refused, only !class, of the cause
 *   TAG expression tag...           for each tag (- for none), by the code of its entry and by the
 *                                   consumer's own look: TT, TF, FT or FF; or !class
 *   BITS group expression born unit...
 *                                   the group's bits; then T or F for each unit (time:hexadecimal)
 *
 * A map is name:value with commas between, an empty one -.
 */
public final class Filters {
    private static final Method BUILD = build();

    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        try (BufferedReader in = Files.newBufferedReader(Path.of(args[0]));
             BufferedWriter out = Files.newBufferedWriter(Path.of(args[1]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split("\t", -1);
                out.write(switch (words[0]) {
                    case "SQL92" -> sql92(words);
                    case "TAG" -> tag(words);
                    case "BITS" -> bits(words);
                    default -> throw new IllegalArgumentException(line);
                });
                out.newLine();
            }
        }
        System.exit(0);
    }

    private static String sql92(String[] words) {
        Expression expression;
        try {
            BUILD.invoke(null, "topic", text(words[1]), "SQL92");
            expression = FilterFactory.INSTANCE.get("SQL92").compile(text(words[1]));
        } catch (Throwable e) {
            return failure(e);
        }
        StringJoiner results = new StringJoiner("\t");
        for (int i = 2; i < words.length; i++) {
            try {
                Object result = expression.evaluate(new MessageEvaluationContext(properties(words[i])));
                results.add(result == null ? "N" : Boolean.TRUE.equals(result) ? "T"
                    : Boolean.FALSE.equals(result) ? "F" : "?" + result);
            } catch (Throwable e) {
                results.add("!" + e.getClass().getSimpleName());
            }
        }
        return results.toString();
    }

    private static String tag(String[] words) throws Exception {
        Object subscription;
        try {
            subscription = BUILD.invoke(null, "topic", text(words[1]), "TAG");
        } catch (Throwable e) {
            return failure(e);
        }
        MessageFilter filter = filter(subscription, null, null);
        Set<?> tags = (Set<?>) subscription.getClass().getMethod("getTagsSet").invoke(subscription);
        StringJoiner results = new StringJoiner("\t");
        for (int i = 2; i < words.length; i++) {
            String tag = words[i].equals("-") ? null : text(words[i]);
            long code = tag == null ? 0 : tag.hashCode();
            // What PullAPIWrapper does with what was pulled.
            boolean kept = tags.isEmpty() || tag != null && tags.contains(tag);
            results.add((filter.isMatchedByConsumeQueue(code, null) ? "T" : "F") + (kept ? "T" : "F"));
        }
        return results.toString();
    }

    private static String bits(String[] words) throws Exception {
        String group = text(words[1]);
        ConsumerFilterManager manager = new ConsumerFilterManager();
        manager.register("topic", group, text(words[2]), "SQL92", 1);
        ConsumerFilterData data = manager.get("topic", group);
        data.setBornTime(Long.parseLong(words[3]));
        Object subscription = BUILD.invoke(null, "topic", text(words[2]), "SQL92");
        MessageFilter filter = filter(subscription, data, manager);
        StringJoiner results = new StringJoiner("\t");
        StringJoiner positions = new StringJoiner(",");
        for (int position : data.getBloomFilterData().getBitPos()) {
            positions.add(String.valueOf(position));
        }
        results.add(positions.toString());
        for (int i = 4; i < words.length; i++) {
            String[] unit = words[i].split(":", -1);
            byte[] bitmap = unit[1].isEmpty() ? null : java.util.HexFormat.of().parseHex(unit[1]);
            ConsumeQueueExt.CqExtUnit ext =
                new ConsumeQueueExt.CqExtUnit(0L, Long.parseLong(unit[0]), bitmap);
            results.add(filter.isMatchedByConsumeQueue(0L, ext) ? "T" : "F");
        }
        return results.toString();
    }

    /** ExpressionMessageFilter, whose arguments' classes moved between packages. */
    private static MessageFilter filter(Object subscription, ConsumerFilterData data,
        ConsumerFilterManager manager) throws Exception {
        return (MessageFilter) ExpressionMessageFilter.class.getConstructors()[0]
            .newInstance(subscription, data, manager);
    }

    private static String failure(Throwable e) {
        Throwable cause = e;
        while (cause.getCause() != null
            && (cause instanceof java.lang.reflect.InvocationTargetException
                || cause.getClass().getSimpleName().equals("MQFilterException"))) {
            cause = cause.getCause();
        }
        return "!" + cause.getClass().getSimpleName();
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static Map<String, String> properties(String word) {
        Map<String, String> found = new HashMap<>();
        if (!word.equals("-")) {
            for (String pair : word.split(",")) {
                String[] sides = pair.split(":", -1);
                found.put(text(sides[0]), text(sides[1]));
            }
        }
        return found;
    }

    /** FilterAPI#build, which moved between packages. */
    private static Method build() {
        for (String where : new String[] {"remoting.protocol.filter", "common.filter"}) {
            try {
                return Class.forName("org.apache.rocketmq." + where + ".FilterAPI")
                    .getMethod("build", String.class, String.class, String.class);
            } catch (ReflectiveOperationException e) {
                continue;
            }
        }
        throw new IllegalStateException("no FilterAPI");
    }
}
