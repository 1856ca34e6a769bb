"""Code that all commands share, Spark's too: how they end, what they print, and what they need."""
