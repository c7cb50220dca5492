"""Conversion of reports to the JSON of the API and of job results."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calibrant.evaluation import Report
from calibrant.measures.gaps import Gap
from calibrant.measures.measure import MeasureResult
from calibrant.measures.selective import CostPlane

if TYPE_CHECKING:
    from calibrant.by_size import MeasuresBySize
    from calibrant.comparison import CalibrationLaw, ComparisonReport, ContestantReport


def report_document(report: Report, map_id: str | None) -> dict[str, Any]:
    """Convert a report to JSON; ``map_id`` is the id of the map of ``after``."""
    body: dict[str, Any] = {
        "n": report.n,
        "reduction": report.reduction,
        "left_out": report.left_out,
        "clipped": report.clipped,
        "renormalised": report.renormalised,
        "measures": _measures(report.measures),
    }
    if report.weights_kind is not None:
        body["weights_kind"] = report.weights_kind
    if report.after is not None:
        body |= {"map": map_id, "in_sample": report.in_sample, "after": {"measures": _measures(report.after)}}
    if report.warning is not None:
        body["warning"] = report.warning
    if report.improvement is not None:
        body["improvement"] = _measures(report.improvement)
    if report.gaps is not None:
        body["gaps"] = {key: _plain(gap) for key, gap in report.gaps.items()}
    if report.gaps_after is not None:
        body["after"]["gaps"] = {key: _plain(gap) for key, gap in report.gaps_after.items()}
    if report.diagrams:
        body["diagrams"] = dict(report.diagrams)
    if report.after_diagrams:
        body["after"]["diagrams"] = dict(report.after_diagrams)
    if report.groups is not None:
        body["groups"] = {
            name: {"n": group.n, "measures": _measures(group.measures)}
            | ({} if group.after is None else {"after": {"measures": _measures(group.after)}})
            for name, group in report.groups.items()
        }
    return body


def comparison_document(found: ComparisonReport, ids: Mapping[str, str]) -> dict[str, Any]:
    """Convert a comparison to JSON: the report of the uncalibrated predictions with a field ``comparison``.

    ``ids`` are the ids of the maps by name.
    """
    comparison = {
        "correction": found.correction,
        "level": found.level,
        "contestants": [_contestant(each, ids.get(each.name)) for each in found.contestants],
        "measures": {key: dataclasses.asdict(each) for key, each in found.measures.items()},
    }
    return report_document(found.report, None) | {"comparison": comparison}


def law_document(laws: Mapping[str, Mapping[str, CalibrationLaw]]) -> dict[str, Any]:
    """Convert power laws, by contestant and measure, to JSON; ``used`` are the indices of batches with both errors."""
    return {
        name: {
            key: dataclasses.asdict(found.law) | {"of": found.of, "plain": dataclasses.asdict(found.plain)}
            for key, found in by_key.items()
        }
        for name, by_key in laws.items()
    }


def by_size_document(found: MeasuresBySize) -> dict[str, Any]:
    """Convert measures by size to JSON."""
    curves = {
        key: {
            "mean": list(curve.mean),
            "standard_deviation": list(curve.standard_deviation),
            "lost": list(curve.lost),
            "full": _plain(curve.full),
        }
        for key, curve in found.curves.items()
    }
    return {"sizes": list(found.sizes), "repetitions": list(found.repetitions), "curves": curves}


def plane_document(plane: CostPlane) -> dict[str, Any]:
    """Convert a cost plane to JSON."""
    return {name: values.tolist() for name, values in vars(plane).items()}


def _contestant(found: ContestantReport, map_id: str | None) -> dict[str, Any]:
    return {
        "name": found.name,
        "map": map_id,
        "in_sample": found.in_sample,
        "measures": _measures(found.measures),
        "classification_error": found.classification_error,
        "brier": found.brier,
        "improvement": None if found.improvement is None else _measures(found.improvement),
    }


def _measures(results: Mapping[str, MeasureResult]) -> dict[str, Any]:
    return {key: _plain(result) for key, result in results.items()}


def _plain(result: MeasureResult | Gap) -> dict[str, Any]:
    """Convert a result to a dictionary with lists and dictionaries."""
    found = {each.name: getattr(result, each.name) for each in dataclasses.fields(result)}
    for name, value in found.items():
        if isinstance(value, tuple):
            found[name] = list(value)
        elif isinstance(value, Mapping):
            found[name] = dict(value)
    return found
