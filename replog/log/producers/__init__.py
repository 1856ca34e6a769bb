"""What a log knows of the producers that write to it: sequences, duplicates, transactions (section 7)."""
