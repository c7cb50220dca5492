"""The pictures of what is stored or measured: a report's diagram, and the bins of a map's fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pictures.by_size import draw_by_size
from pictures.cost_plane import draw_cost_plane
from pictures.diagram import draw
from pictures.drawn import About, Drawn, Format
from pictures.fit_bins import draw_fit_bins
from pictures.several import draw_several
from schemas.diagrams import PictureQuery
from schemas.maps import FitBins, MapRecord
from service.captions import caption
from storage.pictured import BY_SIZE, COST_PLANE

#: The fields of a diagram, as reports hold it.
_SHOWN = ("data", "definition", "problem")


def draw_report(report: Mapping[str, Any], key: str, form: Format, look: PictureQuery) -> Drawn:
    """Draw a diagram; where there was a map before and after it; of several batches one beside the other."""
    style: dict[str, Any] = {"form": form, "theme": look.theme, "width": look.width}
    if "batches" in report:
        several = [
            (shown_of(each["report"], key), caption(each["report"], key, each["batch"])) for each in each_of(report)
        ]
        return draw_several(several[0][0]["definition"]["name"], several, each="samples", **style)
    shown = shown_of(report, key)
    name = shown["definition"]["name"]
    about = About(report["n"], report["reduction"])
    if name == BY_SIZE:
        return draw_by_size(shown["data"], about, **style)
    if name == COST_PLANE:
        one, other = shown["definition"]["batches"]
        return draw_cost_plane(shown["data"], about, names=(one, other), **style)
    if "after" not in report:
        return draw(name, shown, caption(report, key), **style)
    # A title names what the picture is not: rows that the map has not seen.
    title = "In sample: fitted to these rows" if report.get("in_sample") else None
    after = report["after"]["diagrams"][key], caption(report, key, title, after=True)
    return draw(name, shown, caption(report, key, title), after=after, **style)


def draw_fit(record: MapRecord, bins: FitBins, form: Format, look: PictureQuery) -> Drawn:
    """Draw the rows of a map's fit before and after it, from their bins."""
    called = record.id if record.name is None else f"{record.name}, version {record.version}"
    about = About(record.n or 0, bins.of, f"{called}, in sample")
    scores = record.in_sample
    errors = None if scores is None else (scores.before.ece, scores.after.ece)
    return draw_fit_bins(bins, about, errors=errors, form=form, theme=look.theme, width=look.width)


def keys_of(report: Mapping[str, Any]) -> list[str]:
    """The keys of the diagrams that a report holds, or each of several batches' reports."""
    holder = each_of(report)[0]["report"] if "batches" in report else report
    return list(holder.get("diagrams") or ())


def each_of(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The reports of several batches."""
    found: list[dict[str, Any]] = report["batches"]
    return found


def shown_of(side: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The diagram of a key, as a report holds it."""
    return {name: side["diagrams"][key][name] for name in _SHOWN}
