package oracle;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.embedded.EmbeddedChannel;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.annotation.CFNotNull;
import org.apache.rocketmq.remoting.netty.NettyDecoder;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/**
 * Wire IN OUT: what the real classes make of frames. A line of IN is words with tabs between them;
 * texts are base64 of UTF-8, - is null. A line of OUT answers it.
 *
 *   FRAME hexadecimal      what a server's decoder reads of these bytes: "nothing" or a command, then
 *                          whether the connection is "open" or "closed"
 *   ENCODE codec command   the bytes of the command
 *   FIELDS class fields    the header's fields that are not null, by name; or !exception
 *   LAYOUT class           name:type of the header's own fields, with * after those that must be there
 *
 * A command is code, opaque, flag, language, version, remark, fields and body. Fields are
 * name:value with commas between, none *.
 */
public final class Wire {
    private static final String[] PACKAGES = {
        "org.apache.rocketmq.remoting.protocol.header.",
        "org.apache.rocketmq.remoting.protocol.header.namesrv.",
        "org.apache.rocketmq.common.protocol.header.",
        "org.apache.rocketmq.common.protocol.header.namesrv.",
    };

    public static void main(String[] args) throws Exception {
        Kit.haltOnFailure();
        try (BufferedReader in = Files.newBufferedReader(Path.of(args[0]));
             BufferedWriter out = Files.newBufferedWriter(Path.of(args[1]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split("\t", -1);
                out.write(switch (words[0]) {
                    case "FRAME" -> frame(words[1]);
                    case "ENCODE" -> encode(words);
                    case "FIELDS" -> fields(words);
                    case "LAYOUT" -> layout(words[1]);
                    default -> throw new IllegalArgumentException(line);
                });
                out.newLine();
            }
        }
        System.exit(0);
    }

    private static String frame(String bytes) {
        EmbeddedChannel channel = new EmbeddedChannel(new NettyDecoder());
        channel.writeInbound(Unpooled.wrappedBuffer(HexFormat.of().parseHex(bytes)));
        String state = channel.isOpen() ? "open" : "closed";
        RemotingCommand command = channel.readInbound();
        return (command == null ? "nothing" : said(command)) + "\t" + state;
    }

    private static String encode(String[] words) {
        RemotingCommand command = RemotingCommand.createRequestCommand(0, null);
        command.setSerializeTypeCurrentRPC(SerializeType.valueOf(words[1]));
        command.setCode(Integer.parseInt(words[2]));
        command.setOpaque(Integer.parseInt(words[3]));
        command.setFlag(Integer.parseInt(words[4]));
        command.setLanguage(LanguageCode.valueOf(words[5]));
        command.setVersion(Integer.parseInt(words[6]));
        command.setRemark(text(words[7]));
        command.setExtFields(map(words[8]));
        command.setBody(HexFormat.of().parseHex(words[9]));
        ByteBuf buffer = Unpooled.wrappedBuffer(command.encode());
        byte[] bytes = new byte[buffer.readableBytes()];
        buffer.readBytes(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static String said(RemotingCommand command) {
        byte[] body = command.getBody();
        return String.join("\t",
            Integer.toString(command.getCode()),
            Integer.toString(command.getOpaque()),
            Integer.toString(command.getFlag()),
            command.getLanguage() == null ? "-" : command.getLanguage().name(),
            Integer.toString(command.getVersion()),
            coded(command.getRemark()),
            said(command.getExtFields()),
            body == null ? "" : HexFormat.of().formatHex(body));
    }

    private static String said(Map<String, String> fields) {
        if (fields == null) {
            return "-";
        }
        // Decoders leave other objects than strings in the map, and nulls.
        Map<String, String> sorted = new TreeMap<>();
        for (Map.Entry<?, ?> each : ((Map<?, ?>) fields).entrySet()) {
            if (each.getKey() != null && each.getValue() != null) {
                sorted.put(coded(each.getKey().toString()), coded(each.getValue().toString()));
            }
        }
        StringBuilder pairs = new StringBuilder();
        sorted.forEach((name, value) -> pairs.append(pairs.isEmpty() ? "" : ",").append(name).append(':').append(value));
        return pairs.isEmpty() ? "*" : pairs.toString();
    }

    @SuppressWarnings("unchecked")
    private static String fields(String[] words) throws Exception {
        RemotingCommand command = RemotingCommand.createRequestCommand(0, null);
        command.setExtFields(map(words[2]));
        CommandCustomHeader header;
        try {
            header = command.decodeCommandCustomHeader((Class<? extends CommandCustomHeader>) named(words[1]));
        } catch (Exception error) {
            return "!" + coded(error.toString());
        }
        Map<String, String> found = new HashMap<>();
        for (Class<?> kind = header.getClass(); kind != Object.class; kind = kind.getSuperclass()) {
            for (Field field : kind.getDeclaredFields()) {
                field.setAccessible(true);
                if (!Modifier.isStatic(field.getModifiers()) && field.get(header) != null) {
                    found.put(field.getName(), field.get(header).toString());
                }
            }
        }
        return said(found);
    }

    private static String layout(String name) {
        StringJoiner fields = new StringJoiner(",");
        try {
            for (Field field : named(name).getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    String mark = field.isAnnotationPresent(CFNotNull.class) ? "*" : "";
                    fields.add(field.getName() + ":" + field.getType().getSimpleName() + mark);
                }
            }
        } catch (ClassNotFoundException error) {
            return "!";
        }
        return fields.toString();
    }

    private static Class<?> named(String name) throws ClassNotFoundException {
        for (String each : PACKAGES) {
            try {
                return Class.forName(each + name);
            } catch (ClassNotFoundException error) {
                // The other one, then.
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static HashMap<String, String> map(String word) {
        if (word.equals("-")) {
            return null;
        }
        HashMap<String, String> map = new HashMap<>();
        if (!word.equals("*")) {
            for (String pair : word.split(",")) {
                String[] parts = pair.split(":", -1);
                map.put(text(parts[0]), text(parts[1]));
            }
        }
        return map;
    }

    private static String coded(String text) {
        return text == null ? "-" : Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String text(String word) {
        return word.equals("-") ? null : new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
