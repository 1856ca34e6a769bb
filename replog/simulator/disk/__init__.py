"""Files: full disks, failures, power losses, and how long each operation takes."""
