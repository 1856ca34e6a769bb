"""The wire: generated stubs, codecs that keep payload out of protobuf, error mapping, limits, and what carries calls.

`transport` says what a transport is; `grpcio` and `http2` are two that speak gRPC. `serving` is what a server does with
a call, `peer` who made it, `access` who may, `gate` how many at once, `lists` how much a request lists, `tls` what
certificates say, `health` and `reflection` what it tells of itself, `names` where a host's name leads, `tasks`
work that nobody may wait for any more."""
