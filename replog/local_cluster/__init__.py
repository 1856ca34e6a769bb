"""Starts, watches, hurts and stops a cluster of real processes on this machine."""
