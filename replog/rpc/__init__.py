"""The wire: generated stubs, codecs that keep payload out of protobuf, error mapping, limits, and what carries calls.

`transport` says what a transport is; `grpcio` is one; `http2` is the
connection of another. `serving` is what a server does with a call,
`reflection` what it tells of itself.
"""
