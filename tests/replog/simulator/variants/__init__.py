"""Every wrong variant by its name."""

from importlib import import_module
from pkgutil import iter_modules

from tests.replog.simulator.variants.variant import Variant

VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for module in iter_modules(__path__, f"{__name__}.")
    for variant in getattr(import_module(module.name), "VARIANTS", ())
}
