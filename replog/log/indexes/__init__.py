"""The indexes of a segment: offsets, timestamps, digests, aborted transactions."""
