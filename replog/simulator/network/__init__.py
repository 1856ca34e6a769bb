"""A simulated network that delays, loses, repeats and blocks messages."""
