package replog;

import com.fasterxml.jackson.databind.JsonNode;

import kafka.server.BrokerServer;
import kafka.server.KafkaConfig;

import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** A cluster of replog, with brokers as Kafka's tests know them. */
public final class Cluster {
    private final Map<Integer, Map<String, String>> wanted;
    private final Map<String, String> settings;
    private final Map<Integer, BrokerServer> brokers = new TreeMap<>();
    private final Set<Integer> down = new TreeSet<>();
    private final Map<Integer, KafkaConfig> configs;
    private final String listener;
    private final int disks;
    private JsonNode made;

    /** `wanted`: each broker's own settings, by its id. */
    public Cluster(Map<Integer, Map<String, String>> wanted, Map<String, String> settings, int disks, String listener) {
        this(wanted, settings, disks, listener, Map.of());
    }

    /** Brokers show tests the `configs` that these have made. */
    public Cluster(
        Map<Integer, Map<String, String>> wanted, Map<String, String> settings, Map<Integer, KafkaConfig> configs
    ) {
        this(wanted, settings, 1, "", configs);
    }

    private Cluster(
        Map<Integer, Map<String, String>> wanted, Map<String, String> settings, int disks, String listener,
        Map<Integer, KafkaConfig> configs
    ) {
        this.wanted = wanted;
        this.settings = settings;
        this.disks = disks;
        this.listener = listener;
        this.configs = configs;
    }

    public void start() {
        Map<String, Object> own = new TreeMap<>();
        wanted.forEach((broker, properties) -> own.put(broker.toString(), properties));
        made = Clusters.ask("up", Map.of("brokers", own, "settings", settings, "disks", disks));
        for (int broker : wanted.keySet()) {
            KafkaConfig given = configs.get(broker);
            brokers.put(broker, Broker.of(this, broker, given == null ? config(broker) : given));
        }
    }

    public void stop() {
        if (made != null) {
            Clusters.ask("down", Map.of("cluster", number()));
            made = null;
        }
    }

    public void shutdownBroker(int broker) {
        if (down.add(broker)) {
            Clusters.ask("stop", Map.of("cluster", number(), "broker", known(broker)));
        }
    }

    public void startBroker(int broker) {
        if (down.remove(known(broker))) {
            Clusters.ask("start", Map.of("cluster", number(), "broker", broker));
        }
    }

    public boolean isDown(int broker) {
        return down.contains(broker);
    }

    public String id() {
        return made.get("cluster_id").asText();
    }

    public Map<Integer, BrokerServer> brokers() {
        return brokers;
    }

    public String bootstrap() {
        return wanted.keySet().stream().map(this::address).collect(Collectors.joining(","));
    }

    String address(int broker) {
        return "127.0.0.1:" + port(broker);
    }

    int port(int broker) {
        return made.get("ports").get(Integer.toString(broker)).asInt();
    }

    private int number() {
        return made.get("cluster").asInt();
    }

    private int known(int broker) {
        if (!wanted.containsKey(broker)) {
            throw new IllegalArgumentException("Unknown brokerId " + broker);
        }
        return broker;
    }

    /** What Kafka's configuration of such a broker says, for tests that read it. */
    private KafkaConfig config(int broker) {
        Map<String, String> all = new HashMap<>(settings);
        all.putAll(wanted.get(broker));
        Properties properties = new Properties();
        properties.putAll(all);
        properties.put("process.roles", "broker");
        properties.put("node.id", Integer.toString(broker));
        properties.put("listeners", listener + "://" + address(broker));
        properties.put("advertised.listeners", listener + "://" + address(broker));
        properties.put("listener.security.protocol.map", listener + ":PLAINTEXT,CONTROLLER:PLAINTEXT");
        properties.put("inter.broker.listener.name", listener);
        properties.put("controller.listener.names", "CONTROLLER");
        properties.put("controller.quorum.voters", "3000@127.0.0.1:1");
        properties.put("log.dirs", made.get("homes").get(Integer.toString(broker)).asText() + "/data");
        return KafkaConfig.fromProps(properties);
    }
}
