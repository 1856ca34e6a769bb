"""A cluster of real processes on this machine: started, watched, hurt and stopped."""
