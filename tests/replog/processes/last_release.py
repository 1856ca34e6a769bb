"""What clusters are upgraded from (docs/operations.md): the last release."""

COMMIT = "d3e5570ceea419288dc93dabe73c9d2209559bcc"
