"""Compaction: keep the latest record of each key, in a child process (section 8)."""
