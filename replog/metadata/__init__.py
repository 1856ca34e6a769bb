"""The cluster's metadata: as plain values, as the image that every process keeps, and as records on the wire."""
