"""HTTP/2 on asyncio. `socket_connection.py` puts a connection on a socket, `message_stream.py` a stream before a task.

`server.py` listens, `server_connection.py` makes each call a task; `channel.py` connects, `client_connection.py` opens
calls. `calls.py` writes a gRPC call as header lists. `tls_layer.py` is TLS between a connection and its socket,
`handshakes.py` bounds the unfinished ones."""
