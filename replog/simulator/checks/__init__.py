"""Checks that run after every step of a simulation, and on what clients saw in the end (INV-1 to INV-22)."""
