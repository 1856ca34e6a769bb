"""The faults of a chaos run, by what they hurt."""
