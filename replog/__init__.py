"""replog: a replicated log with Apache Kafka's replication rules and file formats.

The library: `log`, `purgatory`, `rpc`, `metadata`, `client`. The controller's decisions: `controller`, a pure role like
the packages `leader` and `follower`. Processes: `server`; what starts and tests them: `local_cluster`, `simulator`,
`demo`, `chaos`, `cli`. Imports run one way; pyproject.toml has the order. See ARCHITECTURE.md."""
