"""HTTP/2 without I/O, in the words of RFC 9113: bytes in, events out.

`connection.py` is the door, with `bounds.py` and `events.py`. Behind it: `frames.py` cuts bytes into frames,
`receiver.py` handles each, `streams.py` keeps the streams and `stream.py` the states of one, `inflow.py` their messages
(`partial.py`: one in pieces), memory and credit, `outflow.py` what waits for the peer's windows. `hpack.py` is header
compression, and checks header lists."""
