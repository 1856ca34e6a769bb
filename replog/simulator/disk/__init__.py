"""Simulated disks: they fill up, fail, lose power, and take time for each operation."""
