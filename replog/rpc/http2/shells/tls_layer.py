"""TLS of one connection: the bytes of its socket on one side, HTTP/2 on the other. Memory in, memory out.

asyncio's own TLS would have a buffer of 256 KiB for every connection, and one context for the life of a listener."""

import contextlib
import ssl
from collections.abc import Sequence
from typing import Any, cast

from replog.log.offsets import Buffer

RECORD = 16 << 10  # bytes of plain text in the largest record of TLS
PART = 32 << 10  # bytes at a time: OpenSSL keeps the largest buffer that it ever needed
HELLO = 0x16  # the first byte of TLS


class TlsLayer:
    def __init__(self, context: ssl.SSLContext, server: str | None) -> None:
        """`server` is the host that a client wants, whose name the certificate must have; None: we are the server."""
        self.open = False  # the handshake is done
        self.ended = False  # the peer said that nothing more comes
        self._received, self._leaves = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._rest = memoryview(b"")  # the rest of the received bytes
        self._tls = context.wrap_bio(self._received, self._leaves, server_side=server is None, server_hostname=server)

    def begin(self) -> None:
        """Begin the handshake: a client speaks first."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()

    def receive(self, data: memoryview) -> None:
        """Take what a socket has read. `shake` and `fill` use it up before the next call."""
        self._rest = data

    def shake(self) -> bool:
        """Continue with the handshake. Return True if it is done. Raises ssl.SSLError."""
        while not self.open:
            try:
                self._tls.do_handshake()
                self.open = True
            except ssl.SSLWantReadError:
                if not self._feed():
                    break
        return self.open

    def fill(self, room: memoryview) -> int:
        """Put plain text into `room`. Return how many bytes, 0 if there is no more. Raises ssl.SSLError."""
        received, tls, filled = self._received, self._tls, 0
        while filled < len(room) and (received.pending or tls.pending() or self._feed()):
            try:
                size = cast(int, tls.read(RECORD, cast(bytearray, room[filled : filled + RECORD])))
            except ssl.SSLWantReadError:  # only a part of a record is there
                continue
            if not size:
                self.ended = True
                break
            filled += size
        return filled

    def _feed(self) -> bool:
        """Take the next part of the received bytes. Return True if there was one."""
        part, self._rest = self._rest[:PART], self._rest[PART:]
        return self._received.write(part) > 0

    def seal(self, pieces: Sequence[Buffer]) -> list[bytes]:
        """Return the bytes as records of TLS, small pieces together in one. Only while `open`. Raises ssl.SSLError."""
        sealed, small = list[bytes](), list[Buffer]()
        for piece in pieces:
            if len(piece) < RECORD:
                small.append(piece)
                continue
            self._seal(b"".join(small), sealed)
            small.clear()
            self._seal(piece, sealed)
        self._seal(b"".join(small), sealed)
        return sealed

    def _seal(self, plain: Buffer, sealed: list[bytes]) -> None:
        view = memoryview(plain)
        for begin in range(0, len(view), PART):
            self._tls.write(view[begin : begin + PART])  # it takes all: there is always memory
            sealed.append(self._leaves.read())

    def outgoing(self) -> bytes:
        """Return the bytes of TLS itself: a handshake, an alert."""
        return self._leaves.read()

    def close(self) -> bytes:
        """Return the message that nothing more comes, which nobody else can forge."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        return self._leaves.read()

    @property
    def offers_h2(self) -> bool:
        """True if both sides offered HTTP/2 in the handshake."""
        return self._tls.selected_alpn_protocol() == "h2"

    def uris(self) -> list[str] | None:
        """Return those of the peer's certificate, which a trusted authority has signed; None if it showed none."""
        certificate = self._tls.getpeercert()
        if not certificate:
            return None
        names: Any = certificate.get("subjectAltName", ())
        return [value for kind, value in names if kind == "URI"]


def explained(error: ssl.SSLError, server: str | None) -> str:
    """Say what is wrong, and what to do. `server` as in `TlsLayer`."""
    said = error.reason or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        whose = "the client's" if server is None else "its"
        remedy = _REMEDIES.get(error.verify_code, "issue it again: replog tls issue")
        return f"{whose} certificate is refused: {error.verify_message}; {remedy}"
    if (of_ours := _OF_OURS.get(said.partition("_ALERT_")[2] if "_ALERT_" in said else said)) is not None:
        return of_ours if server is not None or "_ALERT_" not in said else f"the client gave up: {said.lower()}"
    return f"TLS failed: {said.lower().replace('_', ' ')}"


_UNTRUSTED = "ssl.truststore.location has not the authority that made it"
_OTHER_HOST = "use a name or an address that it has, or issue it again with --host"
_REMEDIES = {  # the keys are OpenSSL's X509_V_ERR_…
    10: "issue another: replog tls issue",
    **dict.fromkeys((18, 19, 20, 21), _UNTRUSTED),
    **dict.fromkeys((62, 64), _OTHER_HOST),
}
_OF_OURS = {
    "WRONG_VERSION_NUMBER": "no TLS is spoken there; set security.protocol=PLAINTEXT, or choose its port for TLS",
    "UNKNOWN_CA": "it does not trust the authority of our certificate; ssl.keystore.location is of another cluster",
    "CERTIFICATE_EXPIRED": "our certificate has ended; issue another: replog tls issue",
    "CERTIFICATE_REQUIRED": "it asks for a certificate; set ssl.keystore.location",
    "HANDSHAKE_FAILURE": "it refuses our handshake; it may ask for a certificate: set ssl.keystore.location",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate",
    "UNSUPPORTED_CERTIFICATE": "it does not take our certificate for this use; issue one for our role",
}
