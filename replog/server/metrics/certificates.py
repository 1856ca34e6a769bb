"""The ends of the certificates that a process shows and trusts."""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from replog.rpc.tls import Tls
from replog.server.metrics.families import labelled


def certificate_metrics(connections: Iterable[Tls]) -> Metric:
    """Return the ends of certificates in use, which may differ from the files. A keystore ends with its first: then
    others refuse it. A truststore ends with its last: then this process refuses everybody."""
    ends: dict[Path | None, float] = {}
    for tls in connections:
        from cryptography import x509  # a process without TLS need not load it

        if tls.material.ends is not None:
            ends[tls.files.keystore] = tls.material.ends.timestamp()
        roots = x509.load_pem_x509_certificates(tls.material.roots)
        ends[tls.files.truststore] = max(root.not_valid_after_utc.timestamp() for root in roots)
    name, text = "replog_certificate_not_after_timestamp_seconds", "When the certificates of a file end"
    return labelled(GaugeMetricFamily, name, text, "file", ends)
