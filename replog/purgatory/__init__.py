"""Delayed operations: requests that wait for something to happen in a partition, or for their deadline."""
