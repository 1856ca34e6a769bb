"""The wire: generated stubs, codecs that keep payload out of protobuf, error mapping, limits, and transports.

`transport` defines a transport; `grpcio` and `http2` are two that speak gRPC. `serving` handles a call at a server:
`peer` knows who made it, `access` who may, `gate` bounds how many run at once, `lists` how much a request lists. `tls`
reads certificates, `health` and `reflection` describe a server, `names` looks up hosts, `tasks` runs work that nobody
waits for."""
