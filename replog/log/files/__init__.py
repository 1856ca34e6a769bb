"""Files of a log, whatever they contain: opening, reads that do not wait for the disk, replacement, fsync, deletion."""
