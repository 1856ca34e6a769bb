"""All offline checks of a replica's files, replog's or Apache Kafka's. Nothing is ever written.

`verify` in `paths` is the way in; the other modules are named for what they check."""
