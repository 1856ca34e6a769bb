"""The requests of clients: produce, fetch, look-ups."""
