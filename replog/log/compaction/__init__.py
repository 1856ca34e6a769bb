"""Compaction: keep the latest record of each key, in a thread beside the log (section 8)."""
