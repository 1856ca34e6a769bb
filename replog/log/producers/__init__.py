"""What a log knows about its producers: sequences, duplicates, transactions (section 7)."""
