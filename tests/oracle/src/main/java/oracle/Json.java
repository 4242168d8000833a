package oracle;

import java.util.Map;

/** Just enough JSON for what the mains print. */
final class Json {
    private Json() { }

    static String of(Object value) {
        StringBuilder s = new StringBuilder();
        write(s, value);
        return s.toString();
    }

    private static void write(StringBuilder s, Object value) {
        if (value instanceof Map<?, ?> map) {
            String separator = "{";
            for (Map.Entry<?, ?> e : map.entrySet()) {
                s.append(separator);
                write(s, String.valueOf(e.getKey()));
                s.append(": ");
                write(s, e.getValue());
                separator = ", ";
            }
            s.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> list) {
            s.append('[');
            String separator = "";
            for (Object each : list) {
                s.append(separator);
                write(s, each);
                separator = ", ";
            }
            s.append(']');
        } else if (value instanceof Number || value instanceof Boolean || value == null) {
            s.append(value);
        } else {
            s.append('"');
            for (char c : value.toString().toCharArray()) {
                if (c == '"' || c == '\\') {
                    s.append('\\').append(c);
                } else if (c < 0x20 || c > 0x7e) {
                    s.append(String.format("\\u%04x", (int) c));
                } else {
                    s.append(c);
                }
            }
            s.append('"');
        }
    }
}
