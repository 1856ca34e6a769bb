"""The log: record batches, indexes, segments, recovery, epochs and checkpoints, in Kafka's own file formats.

Everything here is synchronous and takes the time as an argument; the only thing it touches is the file system.
"""
