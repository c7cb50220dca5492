"""The HTTP client of a Calibrant server, synchronous (``Calibrant``) and asynchronous (``AsyncCalibrant``).

Importing this package is cheap: each name is loaded when it is first used.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from calibrant.core.errors import UnusableRows, requires

if TYPE_CHECKING:
    from calibrant.client.async_client import AsyncCalibrant
    from calibrant.client.client import Calibrant
    from calibrant.client.errors import JobFailed, JobTimeout, ProblemResponse
    from calibrant.client.events import JobEvent

with requires("client", "the client"):
    for _package in ("httpx", "orjson"):
        if find_spec(_package) is None:
            raise ModuleNotFoundError(f"No module named {_package!r}", name=_package)

#: Name -> the module that it is loaded from.
_MODULE_OF = {
    "AsyncCalibrant": "async_client",
    "Calibrant": "client",
    "JobEvent": "events",
    "JobFailed": "errors",
    "JobTimeout": "errors",
    "ProblemResponse": "errors",
}

__all__ = ["AsyncCalibrant", "Calibrant", "JobEvent", "JobFailed", "JobTimeout", "ProblemResponse", "UnusableRows"]


def _loaded(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return value


if not TYPE_CHECKING:  # checkers of types then know which names exist
    __getattr__ = _loaded


def __dir__() -> list[str]:
    return sorted(__all__)
