package kafka.server;

import kafka.utils.Logging;
import kafka.utils.TestInfoUtils;

import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.MockFaultHandler;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.provider.Arguments;
import org.opentest4j.TestAbortedException;

import replog.Cluster;
import replog.Controllers;
import replog.LeftOut;

import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Stream;

import scala.Option;
import scala.collection.Seq;
import scala.collection.immutable.Nil$;

/** In place of Kafka's class of this name, under all of its tests in Scala: brokers are those of a cluster of replog. */
public abstract class QuorumTestHarness implements Logging {
    static {
        LeftOut.install();
    }

    private final QuorumTestHarnessFaultHandlerFactory faults =
        new QuorumTestHarnessFaultHandlerFactory(new MockFaultHandler("quorumTestHarnessFaultHandler"));
    private String logIdent = "";
    private TestInfo test;
    private Cluster cluster;
    private Map<Integer, Map<String, String>> started;

    @BeforeEach
    public void setUp(TestInfo info) {
        test = info;
        cluster = null;
    }

    @AfterEach
    public void tearDown() {
        if (cluster != null) {
            cluster.stop();
            cluster = null;
        }
        Exit.resetExitProcedure();
        Exit.resetHaltProcedure();
    }

    /** The first one that is asked for starts them all. */
    public KafkaBroker createBroker(KafkaConfig config, Time time, boolean startup, Option<String> threadNamePrefix) {
        if (config.interBrokerSecurityProtocol() != SecurityProtocol.PLAINTEXT) {
            throw new TestAbortedException("needs " + config.interBrokerSecurityProtocol());
        }
        Map<Integer, Map<String, String>> wanted = new TreeMap<>();
        Map<Integer, KafkaConfig> configs = new HashMap<>();
        if (this instanceof kafka.integration.KafkaServerTestHarness harness) {
            harness.configs().foreach(each -> configs.put(each.brokerId(), each));
        }
        configs.putIfAbsent(config.brokerId(), config);
        configs.forEach((id, each) -> wanted.put(id, texts(each.originals())));
        if (cluster == null) {
            Map<String, String> settings = new HashMap<>();
            kraftControllerConfigs(test).foreach(each -> { settings.putAll(texts(each)); return null; });
            started = wanted;
            cluster = new Cluster(wanted, settings, configs);
            cluster.start();
        } else if (!wanted.equals(started)) {
            throw new TestAbortedException("needs brokers whose files of settings change");
        }
        return cluster.brokers().get(config.brokerId());
    }

    public Time createBroker$default$2() {
        return Time.SYSTEM;
    }

    public boolean createBroker$default$3() {
        return true;
    }

    public Option<String> createBroker$default$4() {
        return Option.empty();
    }

    private static Map<String, String> texts(Map<?, ?> properties) {
        Map<String, String> texts = new TreeMap<>();
        properties.forEach((name, value) -> texts.put(name.toString(), String.valueOf(value)));
        texts.keySet().removeIf(name -> name.endsWith("log.dirs") || name.endsWith("log.dir"));
        return texts;
    }

    public ControllerServer controllerServer() {
        return Controllers.of(cluster);
    }

    public Seq<ControllerServer> controllerServers() {
        return (Seq<ControllerServer>) (Seq<?>) Nil$.MODULE$;
    }

    public void shutdownKRaftController() {
        throw new TestAbortedException("needs a ControllerServer object");
    }

    public SecurityProtocol controllerListenerSecurityProtocol() {
        return SecurityProtocol.PLAINTEXT;
    }

    public Seq<SecurityProtocol> extraControllerSecurityProtocols() {
        return (Seq<SecurityProtocol>) (Seq<?>) Nil$.MODULE$;
    }

    public Seq<Properties> kraftControllerConfigs(TestInfo info) {
        return (Seq<Properties>) (Seq<?>) Nil$.MODULE$;
    }

    public MetadataVersion metadataVersion() {
        return MetadataVersion.latestTesting();
    }

    public void addFormatterSettings(Formatter formatter) {
    }

    public QuorumTestHarnessFaultHandlerFactory faultHandlerFactory() {
        return faults;
    }

    public MockFaultHandler faultHandler() {
        return faults.faultHandler();
    }

    public Option<GroupProtocol> maybeGroupProtocolSpecified() {
        return TestInfoUtils.maybeGroupProtocolSpecified(test);
    }

    public GroupProtocol groupProtocolFromTestParameters() {
        return maybeGroupProtocolSpecified().get();
    }

    /** Also where both are asked for: replog has no other one. */
    public static Stream<Arguments> getTestGroupProtocolParametersAll() {
        return getTestGroupProtocolParametersClassicGroupProtocolOnly();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersClassicGroupProtocolOnly() {
        return Stream.of(Arguments.of("classic"));
    }

    public static Stream<Arguments> getTestGroupProtocolParametersConsumerGroupProtocolOnly() {
        return Stream.of(Arguments.of("consumer"));
    }

    @Override
    public String logIdent() {
        return logIdent;
    }

    @Override
    public void logIdent_$eq(String ident) {
        logIdent = ident;
    }
}
