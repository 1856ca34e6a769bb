import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A client of Kafka that takes orders of a benchmark: it prints "ready", takes one order a line on stdin, a name and its
 * arguments as JSON, and answers each with a line of JSON (benchmarks/beside.py). "run" runs one of Kafka's own programs
 * in this JVM, which is warm then. These cannot time a record from when it was due, so "pace" does.
 */
class Client {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        answers.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] order = line.split(" ", 2);
            JsonNode arguments = JSON.readTree(order[1]);
            Map<String, Object> answer =
                switch (order[0]) {
                    case "run" -> run(arguments);
                    case "pace" -> pace(arguments);
                    default -> throw new IllegalArgumentException("there is no order " + order[0]);
                };
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    /** Runs a program, and returns what it prints. */
    private static Map<String, Object> run(JsonNode order) throws Exception {
        String[] arguments = JSON.convertValue(order.get("arguments"), String[].class);
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream before = System.out;
        System.setOut(new PrintStream(printed, true));
        try {
            Class.forName(order.get("program").asText()).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } finally {
            System.out.flush();
            System.setOut(before);
        }
        return Map.of("output", printed.toString());
    }

    /** Sends each record when it is due, or late, to the partitions in turn, and times it from when it was due. */
    private static Map<String, Object> pace(JsonNode order) {
        int records = order.get("records").asInt(), partitions = order.get("partitions").asInt();
        double perSecond = order.get("per_second").asDouble();
        String topic = order.get("topic").asText();
        byte[] value = new byte[order.get("record_bytes").asInt()];
        new Random().nextBytes(value);
        Properties settings = new Properties();
        settings.putAll(JSON.convertValue(order.get("settings"), Map.class));
        long[] micros = new long[records];
        AtomicReference<Exception> failed = new AtomicReference<>();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.partitionsFor(topic);
            long first = System.nanoTime();
            for (int i = 0; i < records; i++) {
                int number = i;
                long due = first + (long) (number / perSecond * 1e9);
                for (long wait = due - System.nanoTime(); wait > 0; wait = due - System.nanoTime()) {
                    LockSupport.parkNanos(wait);
                }
                producer.send(new ProducerRecord<>(topic, number % partitions, null, value), (stored, error) -> {
                    micros[number] = (System.nanoTime() - due) / 1000;
                    if (error != null) failed.set(error);
                });
            }
            producer.flush();
        }
        if (failed.get() != null) throw new IllegalStateException("a record was not stored", failed.get());
        return Map.of("waits_us", Arrays.copyOfRange(micros, order.get("warm_up").asInt(), records));
    }
}
