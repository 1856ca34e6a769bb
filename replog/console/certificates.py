"""The console's certificate, and those of browsers that it lets in."""

import logging
import ssl
import time
from pathlib import Path

from replog.errors import ErrorCode
from replog.rpc.tls import LOOK_S, stamps_of

logger = logging.getLogger(__name__)


class Certificates:
    """Two PEM files: the key and chain that browsers are shown, and the authorities of browsers that are let in.

    A new connection uses what the files hold now. A file that cannot be used changes nothing."""

    def __init__(self, keystore: Path, truststore: Path) -> None:
        """Raises INVALID_CONFIG that names the file."""
        self._keystore, self._truststore = keystore, truststore
        self._stamps = stamps_of(self._keystore, self._truststore)
        try:
            self._now = self._read()
        except (OSError, ssl.SSLError) as error:
            raise ErrorCode.INVALID_CONFIG.error(
                f"--keystore {keystore}, with the authorities of {truststore}: {error}"
            ) from None
        self._looked = time.monotonic()

    def context(self) -> ssl.SSLContext:
        """Return a server's context. It is replaced by the newest before a connection is shown a certificate."""
        self._now.sni_callback = self._choose
        return self._now

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _first: ssl.SSLContext) -> None:
        self._look()
        connection.context = self._now

    def _look(self) -> None:
        if time.monotonic() - self._looked < LOOK_S:
            return
        self._looked = time.monotonic()
        try:
            if (stamps := stamps_of(self._keystore, self._truststore)) != self._stamps:
                self._now, self._stamps = self._read(), stamps
                logger.info("TLS: new certificates from %s and %s are in use", self._keystore, self._truststore)
        except (OSError, ssl.SSLError) as error:
            logger.warning("TLS: the certificates from before stay in use: %s: %s", self._keystore, error)

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.num_tickets = 0  # otherwise a resumed session would not be asked for a certificate again
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        context.load_verify_locations(self._truststore)
        context.load_cert_chain(self._keystore)
        return context
