"""What all commands share, those that Spark runs too: how they end, what they print, and what they need."""
