"""The metadata store on etcd, and leadership by a lease there."""
