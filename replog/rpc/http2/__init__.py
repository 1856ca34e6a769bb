"""gRPC over HTTP/2, of our own: a connection without I/O, and the shells around it.

`connection.py` is the door to all of it: bytes in, events (`events.py`) out, within `bounds.py`. Behind it: `frames.py`
cuts bytes into frames, `receiver.py` handles each (`control.py`: those of the connection itself), `streams.py` keeps
the streams (`stream.py`), `incoming.py` their messages (`partial.py`: one in pieces), memory and credit, `outgoing.py`
what waits for the peer's windows. `headers.py` is HPACK, `fields.py` checks header lists, `settings.py` reads SETTINGS,
`floods.py` bounds what costs a peer little.

The shells, on asyncio, as `transport.py` names them: `wire.py` puts a connection on a socket, `exchange.py` a stream
before a task. `server.py` listens, `server_wire.py` makes each call a task; `channel.py` connects, `client_wire.py`
opens calls. `calls.py` writes a gRPC call as header lists. `tls_layer.py` is TLS between a wire and its socket,
`handshakes.py` bounds the unfinished ones."""
