"""Compaction, in a child process."""
