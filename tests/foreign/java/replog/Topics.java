package replog;

import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.RequestHeader;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.List;

/** What one broker knows of topics, asked by a request on a connection of its own. */
final class Topics {
    private static final short VERSION = 12; // of Metadata

    private Topics() {
    }

    /** All topics if `names` is null. */
    static List<MetadataResponseTopic> known(int port, List<String> names) throws IOException {
        MetadataRequest.Builder wanted =
            names == null ? MetadataRequest.Builder.allTopics() : new MetadataRequest.Builder(names, false);
        RequestHeader header = new RequestHeader(ApiKeys.METADATA, VERSION, "stand-in", 0);
        ByteBuffer frame = wanted.build(VERSION).serializeWithHeader(header);
        try (Socket socket = new Socket("127.0.0.1", port)) {
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            out.writeInt(frame.remaining());
            out.write(frame.array(), frame.arrayOffset() + frame.position(), frame.remaining());
            out.flush();
            DataInputStream in = new DataInputStream(socket.getInputStream());
            ByteBuffer answer = ByteBuffer.wrap(in.readNBytes(in.readInt()));
            MetadataResponse response = (MetadataResponse) AbstractResponse.parseResponse(answer, header);
            return response.data().topics().stream().filter(topic -> topic.errorCode() == Errors.NONE.code()).toList();
        }
    }
}
