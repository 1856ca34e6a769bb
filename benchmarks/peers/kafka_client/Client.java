import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A client of Kafka that takes the orders of benchmarks/peers/replog_client.py: its argument names the cluster. It prints
 * "ready", takes one order a line on stdin, a name and its arguments as JSON, and answers each with a line of JSON
 * (`Beside` of benchmarks/harness.py).
 */
class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int LONGEST_S = 3600;
    private static final Duration PATIENCE = Duration.ofSeconds(200);
    private static String bootstrap;
    private static volatile boolean stopped;
    private static FutureTask<long[]> pacing;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        answers.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] order = line.split(" ", 2);
            JsonNode work = JSON.readTree(order[1]);
            Map<String, Object> answer =
                switch (order[0]) {
                    case "produce" -> produce(work);
                    case "consume" -> consume(work);
                    case "go" -> go(work);
                    case "tell" -> tell(true);
                    case "pace" -> {
                        go(work);
                        yield tell(false);
                    }
                    default -> throw new IllegalArgumentException("there is no order " + order[0]);
                };
            answers.println(JSON.writeValueAsString(answer));
        }
        System.exit(0);
    }

    private static KafkaProducer<byte[], byte[]> producer(JsonNode order) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.putAll(JSON.convertValue(order.get("settings"), Map.class));
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static byte[] value(JsonNode order) {
        byte[] value = new byte[order.get("record_bytes").asInt()];
        new Random().nextBytes(value);
        return value;
    }

    /** Sends as fast as records are acknowledged. The producer chooses their partitions. */
    private static Map<String, Object> produce(JsonNode order) throws Exception {
        String topic = order.get("topic").asText();
        byte[] value = value(order);
        AtomicReference<Exception> failed = new AtomicReference<>();
        try (var producer = producer(order)) {
            producer.partitionsFor(topic);
            long started = System.nanoTime();
            for (int left = order.get("records").asInt(); left > 0; left--) {
                producer.send(new ProducerRecord<>(topic, value), (stored, error) -> {
                    if (error != null) failed.set(error);
                });
            }
            producer.flush();
            if (failed.get() != null) throw new IllegalStateException("a record was not stored", failed.get());
            return Map.of("seconds", (System.nanoTime() - started) / 1e9);
        }
    }

    /** Reads the records from the beginning. */
    private static Map<String, Object> consume(JsonNode order) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int i = 0; i < order.get("partitions").asInt(); i++) {
            partitions.add(new TopicPartition(order.get("topic").asText(), i));
        }
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            long started = System.nanoTime();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            for (int left = order.get("records").asInt(); left > 0; ) {
                int count = consumer.poll(PATIENCE).count();
                if (count == 0) throw new IllegalStateException(left + " records did not arrive in time");
                left -= count;
            }
            return Map.of("seconds", (System.nanoTime() - started) / 1e9);
        }
    }

    private static Map<String, Object> go(JsonNode order) throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        stopped = false;
        pacing = new FutureTask<>(() -> pace(order, begun));
        new Thread(pacing).start();
        begun.await();
        return Map.of();
    }

    private static Map<String, Object> tell(boolean stop) throws Exception {
        stopped = stop;
        return Map.of("waits_us", pacing.get());
    }

    /** Sends each record when it is due, or late, to the partitions in turn; -1 is the wait of one that failed. */
    private static long[] pace(JsonNode order, CountDownLatch begun) throws Exception {
        double perSecond = order.get("per_second").asDouble();
        int records = order.has("records") ? order.get("records").asInt() : (int) (perSecond * LONGEST_S), sent = 0;
        byte[] value = value(order);
        long[] micros = new long[records];
        Arrays.fill(micros, -1);
        List<TopicPartition> targets = new ArrayList<>();
        try (var producer = producer(order)) {
            JSON.convertValue(order.get("topics"), new TypeReference<Map<String, Integer>>() {}).forEach((topic, size) -> {
                producer.partitionsFor(topic);
                for (int i = 0; i < size; i++) targets.add(new TopicPartition(topic, i));
            });
            begun.countDown();
            long first = System.nanoTime();
            for (; sent < records && !stopped; sent++) {
                int number = sent;
                long due = first + (long) (number / perSecond * 1e9);
                for (long wait = due - System.nanoTime(); wait > 0; wait = due - System.nanoTime()) {
                    LockSupport.parkNanos(wait);
                }
                TopicPartition target = targets.get(number % targets.size());
                producer.send(new ProducerRecord<>(target.topic(), target.partition(), null, value), (stored, error) -> {
                    if (error == null) micros[number] = (System.nanoTime() - due) / 1000;
                });
            }
            producer.flush();
        } finally {
            begun.countDown();
        }
        return Arrays.copyOf(micros, sent);
    }
}
