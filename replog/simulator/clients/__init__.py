"""What clients do during a seed, with transactions."""
