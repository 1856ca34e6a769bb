"""A broker's work on its disks: flushes, checkpoints, retention, moves, descriptions for audits."""
