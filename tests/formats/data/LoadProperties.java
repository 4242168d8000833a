import java.io.BufferedInputStream;
import java.io.FileInputStream;
import java.io.InputStream;
import java.util.Properties;
import java.util.TreeSet;

/** Prints what Java reads in files: for each a JSON object, or null where it refuses one. */
public class LoadProperties {
    public static void main(String[] paths) throws Exception {
        for (String path : paths) {
            Properties properties = new Properties();
            try (InputStream in = new BufferedInputStream(new FileInputStream(path))) {
                properties.load(in);
            } catch (IllegalArgumentException e) {
                System.out.println("null");
                continue;
            }
            StringBuilder line = new StringBuilder("{");
            for (String name : new TreeSet<>(properties.stringPropertyNames())) {
                line.append(line.length() > 1 ? ", " : "");
                line.append(text(name)).append(": ").append(text(properties.getProperty(name)));
            }
            System.out.println(line.append("}"));
        }
    }

    private static String text(String value) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : value.toCharArray()) {
            boolean isPlain = c >= 32 && c < 127 && c != '"' && c != '\\';
            quoted.append(isPlain ? String.valueOf(c) : String.format("\\u%04x", (int) c));
        }
        return quoted.append('"').toString();
    }
}
