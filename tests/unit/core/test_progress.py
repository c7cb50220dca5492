from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.comparison import Comparison, read_contestants
from calibrant.core.batch import Batch, read_batch
from calibrant.core.progress import check, muted, report, reporting, step
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling
from tests.rows import draw_event

Steps = list[tuple[int, int, str]]


class Cancelled(Exception):
    pass


def _recorder() -> tuple[Steps, Any]:
    steps: Steps = []
    return steps, lambda *step: steps.append(step)


def _rises(steps: Steps) -> bool:
    done = [step[0] for step in steps]
    return done == sorted(done) and {step[1] for step in steps} == {1000} and steps[-1] == (1000, 1000, "done")


def _batch(n: int = 300) -> Batch:
    return read_batch(*draw_event(n, 0, 1.3))


def _run(operation: Any, batch: Batch, groups: Any = None, **options: Any) -> Any:
    return operation.run(operation.check(batch, groups), **options)


def test_shares_add_up_and_never_fall() -> None:
    steps, progress = _recorder()
    with reporting(progress):
        with step(0, 2, "first"):
            report(1, 1, "all")
        with step(1, 2, "second"):
            report(1, 2, "")
            with muted(), step(0, 1, "repeated"):
                report(1, 1, "not recorded")
        with step(0, 2):
            report(0, 1, "late")
        check()
    assert [(done, stage) for done, _, stage in steps] == [
        (0, "first"),
        (500, "first: all"),
        (500, "second"),
        (750, "second"),
        *[(750, "second")] * 2,
        *[(750, "late")] * 2,
    ]


def test_nothing_is_reported_without_a_callback_and_exceptions_pass_through() -> None:
    with reporting(None), step(0, 1, "nobody"), muted():
        report(1, 1, "nothing")
        check()
    steps, progress = _recorder()
    with pytest.raises(Cancelled), reporting(progress), step(0, 1, "step"):
        raise Cancelled
    report(1, 1, "after")
    assert steps == [(0, 1000, "step")]


def test_work_without_a_callback_of_its_own_reports_to_the_surrounding_one() -> None:
    steps, progress = _recorder()
    with reporting(progress), step(1, 2):
        _run(Evaluation(read_requests(["ks"])), _batch())
    assert steps[-1] == (1000, 1000, "done")
    assert all(done >= 500 for done, _, _ in steps)


def test_progress_that_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="progress must be a function"):
        calibrant.fit("isotonic", [0.1, 0.9] * 10, [0, 1] * 10, progress=True)  # type: ignore[arg-type]


@pytest.mark.slow
def test_an_evaluation_reports_its_steps_and_numbers_do_not_depend_on_it() -> None:
    batch = _batch()
    fitted = calibrant.fit("platt", batch.predictions.given, batch.labels)
    requests = read_requests(["l2-bias", "ks", "ece-pl3", "ece-venn-abers", "mmce"])
    evaluation = Evaluation(
        requests, map=fitted, resampling=Resampling(0.9, 100), diagrams=read_diagrams(["reliability"])
    )
    groups = ["a", "b"] * (len(batch) // 2)
    steps, progress = _recorder()
    assert _run(evaluation, batch, groups, progress=progress) == _run(evaluation, batch, groups)
    assert _rises(steps)
    stages = {stage for _, _, stage in steps}
    assert {"map", "improvement", "measures", "diagrams after the map", "groups", "gaps after the map"} <= stages
    assert "measures: l2-bias: resamples" in stages
    assert len(steps) > 1000


def test_an_exception_of_progress_ends_an_evaluation_between_two_resamples() -> None:
    evaluation = Evaluation(read_requests(["l2-bias"]), resampling=Resampling(0.9, 1000))
    calls = 0

    def cancel(_done: int, _total: int, stage: str) -> None:
        nonlocal calls
        calls += stage.endswith("resamples")
        if calls == 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        _run(evaluation, _batch(), progress=cancel)


def test_a_comparison_reports_its_maps_and_pairs() -> None:
    batch = _batch()
    maps = {name: calibrant.fit(name, batch.predictions.given, batch.labels) for name in ("platt", "isotonic")}
    comparison = Comparison(
        Evaluation(read_requests(["ece", "l2-bias"]), resampling=Resampling(0.9, 100)), read_contestants(maps, {})
    )
    steps, progress = _recorder()
    assert _run(comparison, batch, progress=progress) == _run(comparison, batch)
    assert _rises(steps)
    assert {"uncalibrated: measures", "maps: platt", "isotonic: measures", "pairs by l2-bias: platt: resamples"} <= {
        stage for _, _, stage in steps
    }


@pytest.mark.slow
@pytest.mark.parametrize("method", ["vector", "matrix-odir", "dirichlet-l2", "ets", "iop-diagonal", "temperature"])
def test_fits_of_vectors_report_at_every_pass(method: str) -> None:
    random = np.random.default_rng(1)
    z = 2.0 * random.standard_normal((400, 3))
    y = (z + random.gumbel(size=z.shape)).argmax(axis=1)
    steps, progress = _recorder()
    P = np.exp(1.5 * z) / np.exp(1.5 * z).sum(axis=1, keepdims=True)
    fitted = calibrant.fit(method, P, y, reduction="canonical", progress=progress)
    assert fitted.to_document() == calibrant.fit(method, P, y, reduction="canonical").to_document()
    assert _rises(steps)
    if method.startswith(("matrix", "dirichlet", "iop")):
        assert "strengths outside folds" in {stage for _, _, stage in steps}


@pytest.mark.parametrize(("method", "options"), [("venn-abers", {}), ("spline", {"knots": None})])
def test_fits_of_events_report_between_their_steps(method: str, options: dict[str, Any]) -> None:
    batch = _batch()
    steps, progress = _recorder()
    calibrant.fit(method, batch.predictions.given, batch.labels, progress=progress, **options)
    assert len({done for done, _, _ in steps}) >= 2
    assert [done for done, _, _ in steps] == sorted(done for done, _, _ in steps)
