"""The wire: generated stubs, codecs that keep payload out of protobuf, error mapping, limits, and transports.

`transport` defines a transport; `grpcio` and `http2` are two that speak gRPC. `serving` handles a call at a server and
bounds how many run at once: `peer` knows who made it, and who may, `lists` how much it lists. `tls` reads certificates,
`names` looks up hosts, `tasks` runs work that nobody waits for."""
