"""The APIs that are served: those of the table that have a file in `apis`."""

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

from replog.kafka.versions import APIS, Api
from replog.rpc.limits import Limit
from replog.rpc.serving import Gate

CALLS = 500  # handlers of one API at once that are tasks; then peers take turns, as with gRPC's calls
_APIS = f"{__package__}.apis"


class Handler(NamedTuple):
    api: Api
    serve: Callable[[Any, Any], Any]
    is_task: bool  # a request is handled by a task of its own
    gate: Gate


@cache
def served() -> dict[int, Api]:
    """Return the APIs that have a file, by their number."""
    return {key: api for key, api in APIS.items() if find_spec(_module(api)) is not None}


def new_handlers() -> dict[int, Handler]:
    """Return the handlers of one listener, each with the places for its calls."""
    gates = {key: Gate(f"Kafka/{api.name}", Limit(CALLS, 0)) for key, api in served().items()}
    serves = {key: module.serve for key, module in _MODULES.items()}
    return {key: Handler(APIS[key], serve, iscoroutinefunction(serve), gates[key]) for key, serve in serves.items()}


def _module(api: Api) -> str:
    return f"{_APIS}.{re.sub('(?<!^)(?=[A-Z])', '_', api.name).lower()}"


# A broker whose loop runs would be held for 90 ms by these imports.
_MODULES = {key: import_module(_module(api)) for key, api in served().items()}
