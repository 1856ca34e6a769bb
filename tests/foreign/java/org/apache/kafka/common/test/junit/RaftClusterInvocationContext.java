package org.apache.kafka.common.test.junit;

import kafka.network.SocketServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.TestUtils;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;

import replog.Cluster;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;

/** In place of Kafka's class of this name: the cluster that an annotation asks for is one of replog. */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private static final ExecutionCondition TWICE =
        context -> ConditionEvaluationResult.disabled("has the same cluster as the test before");

    private final String name;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean combined) {
        this.name = name;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int index) {
        return name + " " + String.join(",", config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        if (combined && config.clusterTypes().size() > 1) {
            return List.of(TWICE, new ClusterInstanceParameterResolver(null));
        }
        Instance instance = new Instance();
        BeforeEachCallback before = context -> {
            if (config.isAutoStart()) {
                instance.start();
            }
        };
        AfterTestExecutionCallback after = context -> instance.stop();
        return List.of(before, after, new ClusterInstanceParameterResolver(instance));
    }

    private final class Instance implements ClusterInstance {
        private Cluster cluster;
        private boolean stopped;

        @Override
        public Type type() {
            return combined ? Type.CO_KRAFT : Type.KRAFT;
        }

        @Override
        public ClusterConfig config() {
            return config;
        }

        @Override
        public void start() {
            if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT) {
                throw new TestAbortedException("needs " + config.brokerSecurityProtocol());
            }
            Map<Integer, Map<String, String>> brokers = new TreeMap<>();
            for (int broker = 0; broker < config.numBrokers(); broker++) {
                brokers.put(broker, config.perServerOverrideProperties().getOrDefault(broker, Map.of()));
            }
            String listener = config.brokerListenerName().value();
            cluster = new Cluster(brokers, new HashMap<>(config.serverProperties()), config.numDisksPerBroker(), listener);
            cluster.start();
        }

        @Override
        public boolean started() {
            return cluster != null;
        }

        @Override
        public void stop() {
            if (cluster != null && !stopped) {
                cluster.stop();
            }
            stopped = true;
        }

        @Override
        public boolean stopped() {
            return stopped;
        }

        @Override
        public void shutdownBroker(int broker) {
            cluster.shutdownBroker(broker);
        }

        @Override
        public void startBroker(int broker) {
            cluster.startBroker(broker);
        }

        @Override
        public Map<Integer, KafkaBroker> brokers() {
            return new TreeMap<>(cluster.brokers());
        }

        @Override
        public Map<Integer, ControllerServer> controllers() {
            return Map.of();
        }

        @Override
        public Set<Integer> controllerIds() {
            return Set.of();
        }

        @Override
        public ListenerName clientListener() {
            return config.brokerListenerName();
        }

        @Override
        public ListenerName controllerListenerName() {
            return config.controllerListenerName();
        }

        @Override
        public String bootstrapServers() {
            return cluster.bootstrap();
        }

        @Override
        public String bootstrapControllers() {
            throw noController();
        }

        @Override
        public Collection<SocketServer> controllerSocketServers() {
            throw noController();
        }

        @Override
        public String clusterId() {
            return cluster.id();
        }

        @Override
        public Set<GroupProtocol> supportedGroupProtocols() {
            return Set.of(GroupProtocol.CLASSIC);
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return Optional.empty();
        }

        @Override
        public Optional<FaultHandlerException> firstNonFatalException() {
            return Optional.empty();
        }

        @Override
        public void waitForReadyBrokers() {
            // A cluster that has started is ready.
        }

        @Override
        public void waitForTopic(String topic, int partitions) throws InterruptedException {
            Collection<KafkaBroker> alive = aliveBrokers().values();
            TestUtils.waitForCondition(
                () -> alive.stream().allMatch(broker -> broker.metadataCache().numPartitions(topic).orElse(0) == partitions),
                60000L, topic + " metadata not propagated after 60000 ms");
        }

        @Override
        public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) throws InterruptedException {
            try (var admin = admin()) {
                TestUtils.waitForCondition(() -> Set.copyOf(entriesOf(admin, filter)).equals(Set.copyOf(entries)),
                    "expected acls: " + entries);
            }
        }
    }

    private static List<AccessControlEntry> entriesOf(Admin admin, AclBindingFilter filter) {
        try {
            return admin.describeAcls(filter).values().get().stream().map(AclBinding::entry).toList();
        } catch (InterruptedException | ExecutionException error) {
            throw new IllegalStateException(error);
        }
    }

    private static TestAbortedException noController() {
        return new TestAbortedException("needs a controller that speaks Kafka's protocol");
    }
}
