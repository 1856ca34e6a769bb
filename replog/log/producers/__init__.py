"""A log's knowledge of its producers: sequences, duplicates, transactions (section 7)."""
