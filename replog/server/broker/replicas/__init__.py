"""The replicas that a broker hosts, and the requests that wait on them."""
