"""Every wrong variant by its name."""

from tests.replog.simulator.variants import (
    clients,
    compaction,
    controllers,
    elections,
    metadata,
    replication,
    storage,
    transactions,
    truncation,
)
from tests.replog.simulator.variants.variant import Variant

VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for module in (
        truncation,
        replication,
        elections,
        metadata,
        controllers,
        storage,
        compaction,
        transactions,
        clients,
    )
    for variant in module.VARIANTS
}
