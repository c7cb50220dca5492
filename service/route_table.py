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
            (r"/monitors/[^/]+/backfill", "routes.backfills"),
            (r"/(measures|diagrams|methods)", "routes.catalogue"),
            (r"/decisions", "routes.decisions"),
            (r"/recommendations", "routes.recommendations"),
            (r"/audit(/hooks(/[^/]+)?)?", "routes.audit routes.audit_hooks"),
            (r"/datasets", "routes.datasets"),
            (
                r"/|/docs|/problems(/.*)?|/ui(/.*)?",
                "routes.pages web.maps web.calibrate web.catalogue web.sign_in web.upload web.reports web.jobs "
                "web.monitors",
            ),
        )
    }
)
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
        #: For each method the patterns of its calls, in the order of the routes, and the calls.
        self._of_method: defaultdict[str, list[tuple[str, Call]]] = defaultdict(list)
        self._methods: dict[str, re.Pattern[str]] = {}
        self._find = lru_cache(maxsize=_MOST_PATHS)(self._first_match)
        self._storeless: set[str] = set()
        # A path is compared with patterns only once, until routes are added.
        self._needs = lru_cache(maxsize=_MOST_PATHS)(self._matches)
        self._unloaded = lru_cache(maxsize=_MOST_PATHS)(self._match_later)
        self._from_memory: list[re.Pattern[str]] = []
        later = {name for names in LATER.values() for name in names}
        modules = (f"{routes.__name__}.{module.name}" for module in iter_modules(routes.__path__))
        self._add(calls for name in modules if name not in later for calls in _calls_of(name))

    async def load(self, path: str) -> None:
        """Import the calls whose pattern the path of a request matches."""
        for pattern in self._unloaded(path):
            await asyncio.to_thread(self._import, pattern)

    def load_all(self) -> None:
        """Import all calls."""
        for pattern in LATER:
            self._import(pattern)

    # --- Access: whether a path is open, for any method; and what the call of a method and a path needs

    def is_open(self, path: str) -> bool:
        """Whether a path needs no API key."""
        return self._needs("open", path) or self.is_personal(path)

    def is_personal(self, path: str) -> bool:
        """Whether the content of an open page depends on who is signed in."""
        return self._needs("personal", path)

    def needed_scope(self, method: str, path: str) -> Scope | None:
        """The scope that a key needs for a request; None if any key may send it, or there is no such call."""
        call = self._find(method, path)
        return None if call is None else call.needed_scope

    def stores(self, method: str, path: str) -> bool:
        """Whether a request needs room in the store."""
        call = self._find(method, path)
        return call is not None and call.stores

    def changes_maps(self, method: str, path: str) -> bool:
        """Whether a request may change which map a reference leads to."""
        call = self._find(method, path)
        return call is not None and call.changes_maps

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

    def _first_match(self, method: str, path: str) -> Call | None:
        """The call whose route the router chooses: the first that matches, for HEAD as for GET."""
        method = "GET" if method == "HEAD" else method
        match = None if method not in self._methods else self._methods[method].match(path)
        return None if match is None or match.lastindex is None else self._of_method[method][match.lastindex - 1][1]

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
            if call.is_open and call.access is not None:
                self._paths[call.access].append(pattern)
            # The pattern of the route itself, so that no request reaches a call without its scope.
            self._of_method[call.method].append((re.sub(r"\(\?P<\w+>", "(?:", route.path_regex.pattern), call))
            if call.from_memory:
                self._from_memory.append(re.compile(pattern))
            if not call.needs_store:
                self._storeless.add(call.path)
        self._patterns = {access: re.compile("|".join(paths)) for access, paths in self._paths.items()}
        self._methods = {
            method: re.compile("|".join(f"({pattern})" for pattern, _ in calls))
            for method, calls in self._of_method.items()
        }
        self._needs.cache_clear()
        self._find.cache_clear()


def _calls_of(module: str) -> Iterator[Calls]:
    return (value for value in vars(import_module(module)).values() if isinstance(value, Calls))
