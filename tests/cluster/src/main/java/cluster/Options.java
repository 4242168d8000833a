package cluster;

import java.util.Map;
import java.util.TreeMap;

/** The arguments of a main: name=value. */
final class Options {
    private final Map<String, String> values = new TreeMap<>();

    Options(String[] args) {
        for (String arg : args) {
            int equals = arg.indexOf('=');
            if (equals < 1) {
                throw new IllegalArgumentException("name=value, not " + arg);
            }
            values.put(arg.substring(0, equals), arg.substring(equals + 1));
        }
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException(name + "=... is missing");
        }
        return value;
    }

    int number(String name) {
        return Integer.parseInt(text(name));
    }
}
