"""The keys that the controllers of one cluster use in etcd, and requests about them."""

from replog.rpc.v1 import etcd_pb2 as pb

_CHUNK = "chunk/"
_AFTER_CHUNKS = "chunk0"  # sorts directly after all names that begin with chunk/


class Keys:
    """Keys below a prefix that nobody else uses."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.head = f"{prefix}head".encode()
        self.leader = f"{prefix}leader".encode()
        self.after_chunks = f"{prefix}{_AFTER_CHUNKS}".encode()

    def chunk(self, number: int) -> bytes:
        """Return the key of a chunk. Keys sort like their numbers."""
        return f"{self.prefix}{_CHUNK}{number:016x}".encode()

    def number(self, chunk: bytes) -> int:
        return int(chunk[-16:], 16)


def created_at(key: bytes, revision: int) -> pb.Compare:
    """Compare that the key was made at this revision, and not again since; 0: that it does not exist."""
    return pb.Compare(target=pb.Compare.CREATE, key=key, create_revision=revision)


def changed_at(key: bytes, revision: int) -> pb.Compare:
    """Compare that the key was last written at this revision."""
    return pb.Compare(target=pb.Compare.MOD, key=key, mod_revision=revision)


def put(key: bytes, value: bytes, lease: int = 0) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=lease))


def get(key: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_range=pb.RangeRequest(key=key))


def delete(first: bytes, end: bytes) -> pb.RequestOp:
    """Delete the keys from `first` up to, but without, `end`."""
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=first, range_end=end))


def only(response: pb.RangeResponse) -> pb.KeyValue | None:
    """Return the value that `get` has found, or None."""
    return response.kvs[0] if response.kvs else None
