"""What the bytes of a log mean: batches, records, control batches, checkpoints; and walks over them."""
