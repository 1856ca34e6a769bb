package replog;

import kafka.server.ControllerServer;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.ResultOrError;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;
import org.mockito.stubbing.Answer;
import org.opentest4j.TestAbortedException;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** What Kafka's tests ask a `ControllerServer` object, where a broker of replog can tell: the ids of topics. */
public final class Controllers implements Answer<Object> {
    private final int port;
    private final Controller controller = Mockito.mock(Controller.class, Mockito.withSettings().stubOnly().defaultAnswer(this));

    private Controllers(int port) {
        this.port = port;
    }

    public static ControllerServer of(Cluster cluster) {
        int port = cluster.port(cluster.brokers().keySet().iterator().next());
        return Mockito.mock(ControllerServer.class, Mockito.withSettings().stubOnly().defaultAnswer(new Controllers(port)));
    }

    @Override
    public Object answer(InvocationOnMock call) throws Throwable {
        switch (call.getMethod().getName()) {
            case "controller":
                return controller;
            case "toString":
                return "the controller of replog";
            case "findAllTopicIds":
                return CompletableFuture.completedFuture(ids());
            case "findTopicIds":
                Map<String, ResultOrError<Uuid>> all = new HashMap<>();
                ids().forEach((name, id) -> all.put(name, ResultOrError.of(id)));
                return CompletableFuture.completedFuture(all);
            default:
                throw new TestAbortedException("needs a ControllerServer object: " + call.getMethod().getName());
        }
    }

    private Map<String, Uuid> ids() throws Exception {
        Map<String, Uuid> ids = new HashMap<>();
        for (MetadataResponseTopic topic : Topics.known(port, null)) {
            ids.put(topic.name(), topic.topicId());
        }
        return ids;
    }
}
