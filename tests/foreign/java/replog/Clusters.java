package replog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The process that starts clusters of replog for this JVM: `java_clusters.py` says what it is asked. */
final class Clusters {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static Clusters instance;

    private final BufferedWriter questions;
    private final BufferedReader answers;

    private Clusters() throws IOException {
        Process process = new ProcessBuilder(List.of(System.getProperty("replog.clusters").split(" ")))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
        questions = process.outputWriter();
        answers = process.inputReader();
    }

    /** Asks for one thing, and waits until it is done. */
    static synchronized JsonNode ask(String what, Map<String, ?> arguments) {
        try {
            if (instance == null) {
                instance = new Clusters();
            }
            Map<String, Object> question = new TreeMap<>(arguments);
            question.put("do", what);
            instance.questions.write(JSON.writeValueAsString(question) + "\n");
            instance.questions.flush();
            JsonNode answer = JSON.readTree(instance.answers.readLine());
            if (answer.has("error")) {
                throw new IllegalStateException("replog: " + what + ": " + answer.get("error").asText());
            }
            return answer;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
