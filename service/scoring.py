"""Scoring: applications of maps, with what they need of a process and of a request. It needs no store."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from backend.calibration import calibrate as apply_map
from backend.calibration import calibrate_in_order
from backend.held_map import HeldMap
from backend.kinds import Calibrated
from schemas.maps import CalibrateDistributionOptions, CalibrateOptions, InOrderOptions
from service.callers import Caller
from service.errors import Stopping
from service.formats.answers import choose_type, respond
from service.formats.body import read_payload
from service.formats.options import read_options, read_options_of_kind
from service.guard import LightBodies, RequestMemory, Slots
from service.observe import Metrics
from service.settings import ScoringSettings
from service.shares import Addresses
from service.short_bodies import calibrate_short
from service.threads import run_in_thread

if TYPE_CHECKING:
    from backend.store.store import Store

#: Work that is estimated to take longer than this needs one of the slots for heavy work.
HEAVY_SECONDS = 0.1
#: Requests with at most this many numbers are computed on the event loop.
_FEW = 256


class ScoringProcess:
    """The limits and the metrics that all requests of a process share; the metrics include ``collectors``."""

    #: Whether the process has the web page, on whose paths errors are shown as HTML.
    has_pages: ClassVar[bool] = False

    def __init__(self, settings: ScoringSettings, *collectors: Collector) -> None:
        self.settings = settings
        self.metrics = Metrics(*collectors)
        self.addresses = Addresses(settings.max_connections_per_address, settings.trusted_proxies)
        self.slots = Slots(
            settings.max_heavy_requests,
            waiting=settings.max_waiting_requests,
            memory=settings.max_request_memory,
            seconds=settings.request_timeout / 2,  # the rest is for the work
        )
        self.memory = RequestMemory(settings.max_request_memory, self.slots)
        self.light = LightBodies()
        #: Whether the process is about to end, and whether a readiness probe has received that.
        self.ending = self.end_noticed = False

    def check_ending(self) -> None:
        """Raise ``Stopping`` for a readiness probe if the process is about to end."""
        if self.ending:
            self.end_noticed = True
            raise Stopping("the process has received SIGTERM and ends after this response")


@dataclass(frozen=True)
class ScoringContext(ABC):
    """The context of a request that applies maps: its process and its caller. It is a ``Scorer``."""

    process: ScoringProcess
    caller: Caller
    scope: Scope

    @property
    def settings(self) -> ScoringSettings:
        """The settings of the service."""
        return self.process.settings

    @property
    @abstractmethod
    def store(self) -> Store:
        """The view of the store of the caller's tenant."""

    @abstractmethod
    def held_map(self, ref: str) -> HeldMap | None:
        """The map of a reference if it is in memory."""

    @abstractmethod
    async def reach(self) -> None:
        """Return once the store can be used, if there is one; raises ``StoreUnavailable`` and ``UnsuitableStore``."""

    async def reach_map(self, ref: str) -> HeldMap | None:
        """Return the map of a reference if it is in memory, or None once it can be found; raises as ``reach``."""
        held = self.held_map(ref)
        if held is None:
            await self.reach()
        return held

    @abstractmethod
    def find_map(self, ref: str) -> HeldMap:
        """The map of a reference; raises ``UnknownMap``."""

    @abstractmethod
    def map_versions(self, name: str) -> Sequence[int]:
        """The versions of the maps with a name."""

    def take_slot(self, seconds: float = math.inf) -> None:
        """Take one of the slots for heavy work if the estimate is long enough; raises ``SlotNeeded``."""
        if seconds > HEAVY_SECONDS:
            self.process.slots.take(self.scope)

    def reserve(self, size: int) -> None:
        """Reserve the memory that the work on the request needs at one time; raises ``Busy`` and ``TooLarge``."""
        RequestMemory.work_for(self.scope, size)


async def calibrate(request: Request, here: ScoringContext) -> Response:
    """Apply a map, or recalibrate forecasts in the order of time, as ``POST /calibrate``."""
    short = await calibrate_short(request, here)
    if isinstance(short, Response):
        return short
    request = short
    kind = choose_type(request)
    payload = await read_payload(request, here.settings)
    if "in_order" in payload.options:
        ordered = read_options(payload, InOrderOptions)
        calibrated = await run_in_thread(calibrate_in_order, here, payload.arrays, ordered)
        return await respond(request, kind, *_parts(calibrated))
    options = read_options_of_kind(payload, CalibrateOptions, CalibrateDistributionOptions)
    few = sum(array.size for array in payload.arrays.values()) <= _FEW
    held = await here.reach_map(options.map)
    if options.batch is not None:
        await here.reach()
    if held is not None and held.is_fast and few and options.batch is None:  # cheaper than the switch to a thread
        calibrated = apply_map(here, payload.arrays, options, held)
    else:
        calibrated = await run_in_thread(apply_map, here, payload.arrays, options, held)
    return await respond(request, kind, *_parts(calibrated))


def _parts(calibrated: Calibrated) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields and arrays of a response."""
    fields, arrays = dict(calibrated.fields), dict(calibrated.arrays)
    level = arrays.pop("level", None)
    return fields if level is None else fields | {"level": level}, arrays
