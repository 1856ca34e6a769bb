package replog;

import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.KafkaConfig;
import kafka.server.metadata.KRaftMetadataCache;

import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.MetadataCache;
import org.mockito.MockSettings;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;
import org.mockito.stubbing.Answer;
import org.opentest4j.TestAbortedException;

import java.io.IOException;
import java.util.List;
import java.util.Optional;

/** What Kafka's tests ask a `KafkaBroker` object, where a broker of replog can tell. What it cannot tell aborts the test. */
final class Broker implements Answer<Object> {
    private final Cluster cluster;
    private final int id;
    private final KafkaConfig config;
    private final SocketServer sockets;
    private final MetadataCache metadata;

    private Broker(Cluster cluster, int id, KafkaConfig config) {
        this.cluster = cluster;
        this.id = id;
        this.config = config;
        sockets = Mockito.mock(SocketServer.class, settings());
        metadata = Mockito.mock(KRaftMetadataCache.class, settings());
    }

    static BrokerServer of(Cluster cluster, int id, KafkaConfig config) {
        return Mockito.mock(BrokerServer.class, new Broker(cluster, id, config).settings());
    }

    private MockSettings settings() {
        return Mockito.withSettings().stubOnly().defaultAnswer(this);
    }

    @Override
    public Object answer(InvocationOnMock call) throws Throwable {
        Object[] given = call.getArguments();
        switch (call.getMethod().getName()) {
            case "config": return config;
            case "socketServer": return sockets;
            case "metadataCache": return metadata;
            case "boundPort": return cluster.port(id);
            case "clusterId": return cluster.id();
            case "isShutdown": return cluster.isDown(id);
            case "brokerState": return cluster.isDown(id) ? BrokerState.NOT_RUNNING : BrokerState.RUNNING;
            case "startup": cluster.startBroker(id); return null;
            case "shutdown": if (!isTheEnd()) cluster.shutdownBroker(id); return null;
            case "awaitShutdown": return null;
            case "toString": return "broker " + id + " of replog";
            case "hashCode": return id;
            case "equals": return call.getMock() == given[0];
            case "numPartitions": return topic((String) given[0]).map(topic -> topic.partitions().size());
            case "contains": if (given[0] instanceof String name) return topic(name).isPresent(); break;
            case "getLeaderAndIsr": return topic((String) given[0]).flatMap(topic -> leaderAndIsr(topic, (int) given[1]));
            default: break;
        }
        throw new TestAbortedException("needs a KafkaBroker object: " + call.getMethod().getName());
    }

    /** At the end of a test in Scala each broker is told to stop; its cluster may serve another test. */
    private static boolean isTheEnd() {
        return StackWalker.getInstance().walk(frames -> frames.anyMatch(frame -> frame.getMethodName().contains("shutdownServers")));
    }

    private Optional<MetadataResponseTopic> topic(String name) throws IOException {
        return Topics.known(cluster.port(id), List.of(name)).stream().findFirst();
    }

    private static Optional<LeaderAndIsr> leaderAndIsr(MetadataResponseTopic topic, int partition) {
        return topic.partitions().stream().filter(each -> each.partitionIndex() == partition).findFirst().map(
            each -> new LeaderAndIsr(each.leaderId(), each.leaderEpoch(), each.isrNodes(), LeaderRecoveryState.RECOVERED, 0));
    }
}
