"""What clients do during a seed, with transactions; and one who may do nothing."""
