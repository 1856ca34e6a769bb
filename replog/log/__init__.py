"""The log of one partition, in Kafka's own file formats: a log here, its parts in the folders below.

| Looking for | Where |
|---|---|
| a log: appends, reads, truncation; deletion | `log.py`, `retention.py` |
| its files: opened, made durable by this thread or another, closed | `durable.py` |
| segments, one of them, and one in place of its neighbours (CL-9) | `segments.py`, `segment.py`, `swap.py` |
| from files to a log; what a crash has torn | `loading.py`, `recovery.py` |
| leader epochs; offsets and timestamps; errors | `epochs.py`, `offsets.py`, `timestamps.py`, `errors.py` |
| batches, records, checkpoints as bytes | `formats/` |
| the indexes of a segment, and what their entries may say | `indexes/` |
| producers: sequences, transactions, snapshots | `producers/` |
| one cleaning of one log | `compaction/` |
| open files, their tails in memory, cold reads, fsync, replacement | `files/` |
| the directories of a broker: lock, identity, checkpoints, clean-shutdown marker, moves | `directories/` |
| a fetch of one partition, as both roles see it | `fetch.py` |

Everything here is synchronous and takes the time as an argument; the only thing it touches is the file system."""
