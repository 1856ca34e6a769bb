"""The faults of a chaos run, in modules named for what they hurt."""
