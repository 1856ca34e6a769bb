"""The log directories of a broker: identity, lock, checkpoints, the clean-shutdown marker, and the logs in them."""
