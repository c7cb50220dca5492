"""Who looks at a page, and what every page shows of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.datastructures import Headers
from starlette.types import Scope

import calibrant
from schemas.keys import Scope as KeyScope
from service.callers import STRANGER, Caller


class Place(NamedTuple):
    """A place of the navigation; ``inside`` is for those who may come in."""

    title: str
    path: str
    inside: bool = True


PLACES = (
    Place("Evaluate", "/", inside=False),
    Place("Maps", "/ui/maps"),
    Place("Jobs", "/ui/jobs"),
    Place("Compare", "/ui/compare"),
    Place("API docs", "/docs", inside=False),
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """What a page tells of who looks at it; ``token`` goes with every form, ``keyed`` is whether keys are in use."""

    caller: Caller
    path: str
    keyed: bool
    token: str | None = None

    @property
    def inside(self) -> bool:
        """Whether there is more to see than what everyone may."""
        return self.caller is not STRANGER

    def may(self, scope: KeyScope) -> bool:
        """Whether buttons that need a scope are worth showing."""
        return self.inside and self.caller.may(scope)

    @property
    def places(self) -> list[tuple[Place, bool]]:
        """The navigation, and where in it the page stands."""
        return [(place, self._stands_in(place)) for place in PLACES if self.inside or not place.inside]

    def _stands_in(self, place: Place) -> bool:
        return self.path == place.path or (place.path != "/" and self.path.startswith(place.path + "/"))


def visitor_of(scope: Scope, token: str | None = None) -> Visitor:
    """Who asks, as far as a request has got; ``token`` is for forms where there is no session."""
    state = scope.get("state", {})
    session = state.get("session")
    keyed = bool(scope["app"].state.process.keyring)
    return Visitor(state.get("caller", STRANGER), scope["path"], keyed, token if session is None else session.token)


def known(visitor: Visitor) -> dict[str, Any]:
    """What every template knows."""
    return {"visitor": visitor, "version": calibrant.__version__}


def is_of_htmx(headers: Headers) -> bool:
    """Whether htmx asks for a part of a page."""
    return headers.get("hx-request") == "true" and headers.get("hx-boosted") != "true"
