package oracle;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.acl.plain.PlainAccessValidator;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Acl IN OUT: what the real ACL says. A line of IN is words with tabs between them; texts are base64
 * of UTF-8, - is null; fields are name:value with commas between, none *. A line of OUT answers it.
 *
 *   SIGN key secret command   the signature that a client of this version adds
 *   HOME directory            a broker with that home begins: "ok" or "!" and the exception's text
 *   CHECK address command     what that broker says of the request, as HOME does
 *   CALL address key secret command   what a server answers a real client that signs: the code, a
 *                             blank and the remark. System properties say whether it speaks TLS.
 *
 * A command is code, version, fields and body in hexadecimal.
 */
public final class Acl {
    private static PlainAccessValidator broker;

    private Acl() { }

    public static void main(String[] args) throws Exception {
        try (BufferedReader in = Files.newBufferedReader(Path.of(args[0]));
             BufferedWriter out = Files.newBufferedWriter(Path.of(args[1]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split("\t", -1);
                out.write(answer(words));
                out.newLine();
            }
        }
        // Each broker has a thread that watches its files.
        System.exit(0);
    }

    private static String answer(String[] words) {
        try {
            switch (words[0]) {
                case "SIGN" -> {
                    RemotingCommand command = command(words, 3);
                    String key = text(words[1]);
                    new AclClientRPCHook(new SessionCredentials(key, text(words[2])))
                        .doBeforeRequest("127.0.0.1:10911", command);
                    return command.getExtFields().get(SessionCredentials.SIGNATURE);
                }
                case "CALL" -> {
                    NettyClientConfig config = new NettyClientConfig();
                    // Clients of 4.9 take it from their own settings.
                    config.setUseTLS(Boolean.getBoolean("tls.enable"));
                    NettyRemotingClient client = new NettyRemotingClient(config);
                    client.registerRPCHook(
                        new AclClientRPCHook(new SessionCredentials(text(words[2]), text(words[3]))));
                    client.start();
                    RemotingCommand answer = client.invokeSync(words[1], command(words, 4), 5000);
                    return answer.getCode() + " " + answer.getRemark();
                }
                case "HOME" -> {
                    broker = null;
                    System.setProperty("rocketmq.home.dir", words[1]);
                    broker = new PlainAccessValidator();
                }
                case "CHECK" -> broker.validate(broker.parse(command(words, 2), words[1]));
                default -> throw new IllegalArgumentException(words[0]);
            }
            return "ok";
        } catch (Throwable failure) {
            return "!" + coded(failure.toString());
        }
    }

    private static RemotingCommand command(String[] words, int at) {
        RemotingCommand command = RemotingCommand.createRequestCommand(Integer.parseInt(words[at]), null);
        command.setVersion(Integer.parseInt(words[at + 1]));
        command.setExtFields(fields(words[at + 2]));
        command.setBody(HexFormat.of().parseHex(words[at + 3]));
        return command;
    }

    private static HashMap<String, String> fields(String given) {
        if (given.equals("-")) {
            return null;
        }
        HashMap<String, String> fields = new HashMap<>();
        for (String pair : given.equals("*") ? new String[0] : given.split(",")) {
            String[] both = pair.split(":", -1);
            fields.put(text(both[0]), text(both[1]));
        }
        return fields;
    }

    private static String text(String coded) {
        return new String(Base64.getDecoder().decode(coded), StandardCharsets.UTF_8);
    }

    private static String coded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
