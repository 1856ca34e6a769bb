"""When the certificates end that a process shows and trusts."""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from replog.rpc.tls import Tls
from replog.server.metrics.families import labelled


def certificate_metrics(connections: Iterable[Tls]) -> Metric:
    """Of those in use, whatever the files hold by now. Of a keystore the first that ends: then nobody believes it any
    more. Of a truststore the last: then this process believes nobody."""
    ends: dict[Path | None, float] = {}
    for tls in connections:
        from cryptography import x509  # where there is TLS it is loaded already

        if tls.material.ends is not None:
            ends[tls.files.keystore] = tls.material.ends.timestamp()
        roots = x509.load_pem_x509_certificates(tls.material.roots)
        ends[tls.files.truststore] = max(root.not_valid_after_utc.timestamp() for root in roots)
    name, text = "replog_certificate_not_after_timestamp_seconds", "When the certificates of a file end"
    return labelled(GaugeMetricFamily, name, text, "file", ends)
