"""All calls of the service: their routes and the access rules of their paths.

Calls are found in the modules of ``service.routes`` and ``service.web``. Those of ``LATER`` are imported when the first
request for one of them arrives: most processes never serve all of them, and they are half of what a start would import.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from threading import Lock
from types import MappingProxyType

from starlette.routing import BaseRoute

from schemas.keys import Scope
from service import routes
from service.calls import Access, Call, Calls

#: Modules of calls whose paths match a pattern.
LATER = MappingProxyType(
    {
        re.compile(pattern): tuple(f"service.{name}" for name in names.split())
        for pattern, names in (
            (r"/diagrams|/(maps|jobs)/[^/]+/diagram\.(svg|png)", "routes.diagrams"),
            (
                r"/monitors(/.*)?",
                "routes.monitor_rows routes.monitors routes.monitor_deliveries routes.monitor_alarms",
            ),
            (r"/(measures|diagrams|methods)", "routes.catalogue"),
            (r"/decisions", "routes.decisions"),
            (r"/datasets", "routes.datasets"),
            (
                r"/|/docs|/problems(/.*)?|/ui(/.*)?",
                "routes.pages web.maps web.calibrate web.catalogue web.sign_in web.upload web.reports web.jobs "
                "web.monitors",
            ),
        )
    }
)
_READING = ("GET", "HEAD", "OPTIONS")
#: Paths whose access is kept in memory.
_MOST_PATHS = 256


class RouteTable:
    """The calls of one application. ``router`` is the list of routes of its router, to which routes are added."""

    def __init__(self, router: list[BaseRoute]) -> None:
        self.calls: list[Call] = []
        self._router = router
        self._later = [*LATER]
        self._importing = Lock()
        #: The paths that need the same, beside the documentation and the files of the pages, which have no calls.
        self._paths: defaultdict[Access, list[str]] = defaultdict(list, {"open": [r"/openapi\.json", "/assets/.*"]})
        self._patterns: dict[Access, re.Pattern[str]] = {}
        self._storeless: set[str] = set()
        # A path is compared with patterns only once, until routes are added.
        self._needs = lru_cache(maxsize=_MOST_PATHS)(self._matches)
        self._unloaded = lru_cache(maxsize=_MOST_PATHS)(self._match_later)
        self._from_memory: list[re.Pattern[str]] = []
        later = {name for names in LATER.values() for name in names}
        found = (f"{routes.__name__}.{module.name}" for module in iter_modules(routes.__path__))
        self._add(calls for name in found if name not in later for calls in _calls_of(name))

    async def load(self, path: str) -> None:
        """Import the calls whose pattern the path of a request matches."""
        for pattern in self._unloaded(path):
            await asyncio.to_thread(self._import, pattern)

    def load_all(self) -> None:
        """Import all calls."""
        for pattern in LATER:
            self._import(pattern)

    # --- Access, by the path alone, so that it is known for methods that a path does not support

    def is_open(self, path: str) -> bool:
        """Whether a path needs no API key."""
        return self._needs("open", path) or self.is_personal(path)

    def is_personal(self, path: str) -> bool:
        """Whether the content of an open page depends on who is signed in."""
        return self._needs("personal", path)

    def needed_scope(self, method: str, path: str) -> Scope:
        """The scope that a key needs for a request."""
        if self._needs("admin", path):
            return "admin"
        return "read" if method in _READING or self._needs("reads", path) else "write"

    def frees_room(self, method: str, path: str) -> bool:
        """Whether a request deletes something, cancels a job, or signs a user in or out, who may need that for it."""
        return method == "DELETE" or self._needs("frees", path) or self.is_personal(path)

    def needs_store(self, path: str) -> bool:
        """Whether requests for a path are refused while the store is unavailable."""
        return path not in self._storeless

    def works_from_memory(self, path: str) -> bool:
        """Whether the memory of a process is enough to answer requests for a path, or some of them."""
        return not self.needs_store(path) or any(pattern.fullmatch(path) for pattern in self._from_memory)

    def _match_later(self, path: str) -> list[re.Pattern[str]]:
        return [pattern for pattern in self._later if pattern.fullmatch(path)]

    def _matches(self, access: Access, path: str) -> bool:
        pattern = self._patterns.get(access)
        return pattern is not None and pattern.fullmatch(path) is not None

    def _import(self, pattern: re.Pattern[str]) -> None:
        with self._importing:
            if pattern in self._later:  # no other request did so in the meantime
                self._add(calls for name in LATER[pattern] for calls in _calls_of(name))
                self._later.remove(pattern)
                self._unloaded.cache_clear()

    def _add(self, added: Iterable[Calls]) -> None:
        for call, route in (pair for calls in added for pair in calls.routes):
            self.calls.append(call)
            self._router.append(route)
            pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(call.path))
            if call.access is not None:
                self._paths[call.access].append(pattern)
            if call.from_memory:
                self._from_memory.append(re.compile(pattern))
            if not call.needs_store:
                self._storeless.add(call.path)
        self._patterns = {access: re.compile("|".join(paths)) for access, paths in self._paths.items()}
        self._needs.cache_clear()


def _calls_of(module: str) -> Iterator[Calls]:
    return (value for value in vars(import_module(module)).values() if isinstance(value, Calls))
