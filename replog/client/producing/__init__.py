"""The producer: records in, batches out, outcomes back."""
