"""gRPC over HTTP/2, of our own, in two folders. `protocol` has no I/O: `connection.py` is its door, bytes in, events
out. `shells` puts it on asyncio: `channel.py` and `server.py` are the doors for the rest of replog."""
