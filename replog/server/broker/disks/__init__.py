"""What a broker does for its disks: flushes, checkpoints, retention, moves, descriptions for audits."""
