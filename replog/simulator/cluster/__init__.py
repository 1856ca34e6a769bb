"""The hosts, what runs on them, and the cluster that they make up."""
