"""Messages: delayed, lost, repeated, blocked."""
