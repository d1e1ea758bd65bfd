// Kafka's command-line tools in one JVM, driven over stdin: a line is the main class and the arguments of a tool, apart by tabs. The answer
// is a line with the tool's exit status and the sizes of what it printed to its two outputs, and then both. It runs one tool at a time.

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

public class Tools {
    private static class Ended extends Error {}

    private static final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream err = new ByteArrayOutputStream();
    private static byte[][] answer;

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(Tools::end);
        Exit.setHaltProcedure(Tools::end);
        Exit.setShutdownHookAdder((name, hook) -> {}); // this JVM goes on after the tool
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.reset();
            err.reset();
            answer = null;
            String[] words = line.split("\t", -1);
            try {
                Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
                finish(0);
            } catch (InvocationTargetException thrown) {
                if (answer == null) {
                    thrown.getCause().printStackTrace();
                    finish(1);
                }
            }
            for (byte[] part : answer) answers.write(part);
            answers.flush();
        }
        System.exit(0);
    }

    private static void end(int status, String message) {
        finish(status);
        throw new Ended();
    }

    /** What a tool says after its end is none of it: some catch what `end` throws, report it, and end again. */
    private static void finish(int status) {
        if (answer != null) return;
        String head = status + " " + out.size() + " " + err.size() + "\n";
        answer = new byte[][] {head.getBytes(StandardCharsets.UTF_8), out.toByteArray(), err.toByteArray()};
    }
}
