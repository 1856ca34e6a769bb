"""The release that clusters are upgraded from (docs/versions.md)."""

COMMIT = "HEAD"
