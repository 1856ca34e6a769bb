"""Options of gRPC's channels and servers."""

from replog.rpc.limits import MAX_ANSWER_BYTES, MAX_CONNECTIONS, MAX_REQUEST_BYTES, MAX_STREAMS

WINDOW = 256 << 10  # bytes of a stream that may arrive before anybody reads them: slow links carry so much in seconds
_FLOW = (
    ("grpc.http2.lookahead_bytes", WINDOW),
    ("grpc.http2.bdp_probe", 0),  # otherwise gRPC finds the window by pings behind messages, also those of idle brokers
)
SERVER_OPTIONS = (
    *_FLOW,
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.so_reuseport", 0),  # two brokers must never share a port
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
)
CHANNEL_OPTIONS = (
    *_FLOW,
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_send_message_length", MAX_REQUEST_BYTES),
    ("grpc.use_local_subchannel_pool", 1),  # a lost connection is this channel's own
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 3000),  # gRPC's name for the time that an attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 5000),  # so much silence brings a ping, which finds a vanished peer without a request
    ("grpc.keepalive_timeout_ms", 5000),  # TCP must acknowledge the ping, or any data, within this time
    ("grpc.http2.ping_timeout_ms", 30_000),  # the peer's process must answer within it, maybe after another answer
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.dns_min_time_between_resolutions_ms", 500),  # half a minute by default: a host that moved is found at once
    ("grpc.enable_http_proxy", 0),
)
