"""The clients of a seed, transactions, and a client without any permission."""
