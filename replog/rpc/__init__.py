"""The wire: generated stubs, codecs that keep payload out of protobuf, error mapping, channels and servers."""
