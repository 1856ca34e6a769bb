"""gRPC over HTTP/2, of our own: a connection without I/O, and the shells around it.

`connection.py` is the whole of it to others: bytes in, events (`events.py`) out, within `bounds.py`. Behind it:
`frames.py` cuts bytes into frames, `receiver.py` says what each means (`control.py`: those of the connection itself),
`streams.py` keeps the streams (`stream.py`), `incoming.py` their messages (`partial.py`: one in pieces), memory and
credit, `outgoing.py` what waits for the peer's windows. `headers.py` is HPACK, `fields.py` what a header list may be,
`settings.py` SETTINGS, `floods.py` what a peer may do too often.

The shells, on asyncio, as `transport.py` names them: `wire.py` puts a connection on a socket, `exchange.py` a stream
before a task. `server.py` listens, `server_wire.py` makes each call a task; `channel.py` connects, `client_wire.py`
opens calls. `calls.py` is how gRPC writes a call into header lists. `shield.py` is TLS between a wire and its socket,
`handshakes.py` bounds those that do not end."""
