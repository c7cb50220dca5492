"""Results of an evaluation and of a comparison as plain JSON, as files and the service have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from calibrant.core.results import plain_json
from calibrant.measures.measure import plain_result, plain_results

if TYPE_CHECKING:
    from calibrant.comparison.laws import CalibrationLaw
    from calibrant.comparison.results import ComparisonReport
    from calibrant.evaluation import Report


def report_document(report: Report, map_id: str | None) -> dict[str, Any]:
    """Convert a report to JSON; ``map_id`` is the id of the map of ``after``."""
    body: dict[str, Any] = {
        "n": report.n,
        "reduction": report.reduction,
        "left_out": report.left_out,
        "clipped": report.clipped,
        "renormalised": report.renormalised,
        "measures": plain_results(report.measures),
    }
    basis = None if report.basis is None else asdict(report.basis)
    of_rows = {"weights_kind": report.weights_kind, "clusters": report.clusters, "basis": basis}
    body |= {name: value for name, value in of_rows.items() if value is not None}
    if report.after is not None:
        body |= {"map": map_id, "in_sample": report.in_sample, "after": {"measures": plain_results(report.after)}}
    if report.warning is not None:
        body["warning"] = report.warning
    if report.improvement is not None:
        body["improvement"] = plain_results(report.improvement)
    if report.gaps is not None:
        body["gaps"] = {key: plain_result(gap) for key, gap in report.gaps.items()}
    if report.gaps_after is not None:
        body["after"]["gaps"] = {key: plain_result(gap) for key, gap in report.gaps_after.items()}
    if report.pooled is not None:
        body["pooled"] = {key: plain_result(pooled) for key, pooled in report.pooled.items()}
    if report.diagrams:
        body["diagrams"] = dict(report.diagrams)
    if report.after_diagrams:
        body["after"]["diagrams"] = dict(report.after_diagrams)
    if report.groups is not None:
        body["groups"] = {
            name: {"n": group.n, "measures": plain_results(group.measures)}
            | ({} if group.after is None else {"after": {"measures": plain_results(group.after)}})
            for name, group in report.groups.items()
        }
    return body


def comparison_document(compared: ComparisonReport, ids: Mapping[str, str]) -> dict[str, Any]:
    """Convert a comparison to JSON: the report of its first contestant with a field ``comparison``.

    ``ids`` are the ids of the maps by name.
    """
    comparison: dict[str, Any] = {
        "correction": compared.correction,
        "level": compared.level,
        "rank_by": compared.rank_by,
    }
    comparison |= _compared(compared, ids)
    if compared.groups is not None:
        comparison["groups"] = {
            name: {"n": part.report.n, **_compared(part, ids)} for name, part in compared.groups.items()
        }
    return report_document(compared.report, None) | {"comparison": comparison}


def _compared(comparison: ComparisonReport, ids: Mapping[str, str]) -> dict[str, Any]:
    return {
        "contestants": [plain_json(part) | {"map": ids.get(part.name)} for part in comparison.contestants],
        "measures": {key: plain_json(part) for key, part in comparison.measures.items()},
    }


def law_document(laws: Mapping[str, Mapping[str, CalibrationLaw]]) -> dict[str, Any]:
    """Convert power laws, by contestant and measure, to JSON; ``used`` are the indices of batches with both errors."""
    return {
        name: {key: asdict(law.law) | {"of": law.of, "plain": asdict(law.plain)} for key, law in by_key.items()}
        for name, by_key in laws.items()
    }
