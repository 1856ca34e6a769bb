"""What must hold after every step of a simulation, and of what clients saw in the end (INV-1 to INV-22)."""
