"""The bytes of a log and their meaning: batches, records, control batches, checkpoints; and walks over them."""
