"""All offline checks of a replica's files, replog's or Apache Kafka's. Nothing is ever written.

Call `verify` in `paths`; the other modules are named for what they check."""
