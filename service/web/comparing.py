"""The comparison that the page asks for: a stored batch, some maps, and the scores that tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from calibrant.diagrams.catalogue import DIAGRAMS
from schemas.batches import BatchRecord
from schemas.evaluate import EvaluateOptions, EvaluateSpec
from schemas.listing import ListedMap, MapQuery
from service.captions import shown_error
from service.context import INLINE_SECONDS, Context
from service.errors import InvalidField, NothingToDraw
from service.formats.options import read_options
from service.formats.payload import Payload
from service.rows import find_arrays, labelled
from service.web.registry_view import reference_of
from storage.evaluations import read_asked
from storage.pages import Asked

#: Maps that are compared at once, and batches and maps that are offered.
MOST_MAPS = 6
_OFFERED = 50
#: What every comparison tells: both proper scores, and two errors of calibration.
MEASURES = ("log-loss", "brier", "ece", "ks")
DIAGRAM = "reliability"


class Offer(NamedTuple):
    """What there is to choose from: batches with labels and their files' names, and maps by their references."""

    batches: list[tuple[BatchRecord, str | None]]
    maps: list[tuple[str, ListedMap]]


def offer(here: Context, *, name: str, chosen: Sequence[str]) -> Offer:
    """The newest batches and maps, of one name where it is given; those chosen always among them."""
    batches = [b for b in here.store.batches.page(Asked(_OFFERED)).items if "labels" in b.arrays]
    query = read_options(Payload({}, {"limit": str(_OFFERED), **_named(name)}, from_query=True), MapQuery)
    maps = [(reference_of(listed), listed) for listed in here.store.listing.page(query).items]
    maps.sort(key=lambda item: item[0] not in chosen)
    files = here.store.uploads.files([batch.id for batch in batches])
    return Offer(list(zip(batches, files, strict=True)), maps)


def _named(name: str) -> dict[str, str]:
    return {"name": name} if name else {}


def read_comparison(batch: str, maps: Sequence[str]) -> EvaluateOptions:
    """The evaluation that compares maps on a batch; raises ``InvalidField`` for what is missing or too much."""
    if not batch:
        raise InvalidField("choose a batch")
    if not 1 <= len(maps) <= MOST_MAPS:
        raise InvalidField(f"choose from one to {MOST_MAPS} maps")
    asked: dict[str, Any] = {"batch": batch, "maps": list(maps), "measures": list(MEASURES)}
    return read_options(Payload({}, asked, from_query=False), EvaluateOptions)


def before_and_after(here: Context, batch_id: str, ref: str) -> dict[str, Any]:
    """The report behind the picture of one map on a batch.

    Raises ``NothingToDraw`` where it would take long: a picture is no job.
    """
    error = shown_error({"name": DIAGRAM, **_defaults()}) | {"as": "error"}
    spec = EvaluateSpec(
        batch=batch_id,
        measures=[error],
        diagrams=[DIAGRAM],
        reduction=None,
        map=here.store.maps.get(ref).id,
        interval=None,
        resamples=1000,
        seed=0,
    )
    asked = read_asked(spec, here.store.maps)
    batch, _ = labelled(*find_arrays(here, Payload({}, {}, from_query=True), EvaluateOptions(batch=batch_id)))
    seconds = asked.seconds(batch, None)
    if not asked.task.inline or seconds > INLINE_SECONDS:
        raise NothingToDraw("it would take longer than a picture may")
    here.take_place(seconds)
    return asked.document(batch, None)


def _defaults() -> dict[str, Any]:

    return {name: option.default for name, option in DIAGRAMS[DIAGRAM].options.items()}
