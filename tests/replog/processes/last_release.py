"""What clusters are upgraded from (docs/versions.md): the last release, or before the first one a state of main."""

COMMIT = "4ce8b88582d656eb24db6ddf4f37a2de72be03c6"
