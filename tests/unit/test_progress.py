from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.batch import Batch, read_batch
from calibrant.comparison import Comparison, read_contestants
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling
from calibrant.progress import SILENT, Rising

Steps = list[tuple[int, int, str]]


class Cancelled(Exception):
    pass


def _heard() -> tuple[Steps, Any]:
    heard: Steps = []
    return heard, lambda *step: heard.append(step)


def _rises(heard: Steps) -> bool:
    done = [step[0] for step in heard]
    return done == sorted(done) and {step[1] for step in heard} == {1000} and heard[-1] == (1000, 1000, "done")


def _batch(n: int = 300) -> Batch:
    random = np.random.default_rng(0)
    p = random.random(n)
    return read_batch(p, (random.random(n) < p**1.3).astype(int))


def test_shares_add_up_and_never_fall() -> None:
    heard, progress = _heard()
    told = Rising(progress)
    first, second = told.share(0, 2, "first"), told.share(1, 2, "second")
    first(1, 2, "half")
    second(1, 2, "")
    second.held()(1, 1, "not heard")
    first(0, 1, "late")
    told.again()
    assert [done for done, _, _ in heard] == [0, 500, 500, 750, 750, 750, 750]
    assert "not heard" not in {stage for _, _, stage in heard}
    assert SILENT.share(0, 1, "nobody") is SILENT


def test_an_evaluation_tells_its_steps_and_numbers_do_not_depend_on_it() -> None:
    batch = _batch()
    fitted = calibrant.fit("platt", batch.predictions.given, batch.labels)
    requests = read_requests(["l2-bias", "ks", "ece-pl3", "ece-venn-abers", "mmce"])
    asked = Evaluation(requests, map=fitted, resampling=Resampling(0.9, 100), diagrams=read_diagrams(["reliability"]))
    groups = ["a", "b"] * (len(batch) // 2)
    heard, progress = _heard()
    assert asked.run(batch, groups, progress=progress) == asked.run(batch, groups)
    assert _rises(heard)
    stages = {stage for _, _, stage in heard}
    assert {"map", "improvement", "measures", "diagrams after the map", "groups", "gaps after the map"} <= stages
    assert "measures: l2-bias: resamples" in stages
    assert len(heard) > 1000


def test_what_progress_raises_ends_an_evaluation_between_two_resamples() -> None:
    asked = Evaluation(read_requests(["l2-bias"]), resampling=Resampling(0.9, 1000))
    calls = 0

    def cancel(_done: int, _total: int, stage: str) -> None:
        nonlocal calls
        calls += stage.endswith("resamples")
        if calls == 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        asked.run(_batch(), progress=cancel)


def test_a_comparison_tells_its_maps_and_pairs() -> None:
    batch = _batch()
    maps = {name: calibrant.fit(name, batch.predictions.given, batch.labels) for name in ("platt", "isotonic")}
    asked = Comparison(
        Evaluation(read_requests(["ece", "l2-bias"]), resampling=Resampling(0.9, 100)), read_contestants(maps, {})
    )
    heard, progress = _heard()
    assert asked.run(batch, progress=progress) == asked.run(batch)
    assert _rises(heard)
    assert {"uncalibrated: measures", "maps: platt", "isotonic: measures", "pairs by l2-bias: platt: resamples"} <= {
        stage for _, _, stage in heard
    }


@pytest.mark.parametrize("method", ["vector", "matrix-odir", "dirichlet-l2", "ets", "iop-diagonal", "temperature"])
def test_fits_of_vectors_tell_at_every_pass(method: str) -> None:
    random = np.random.default_rng(1)
    z = 2.0 * random.standard_normal((400, 3))
    y = (z + random.gumbel(size=z.shape)).argmax(axis=1)
    heard, progress = _heard()
    P = np.exp(1.5 * z) / np.exp(1.5 * z).sum(axis=1, keepdims=True)
    fitted = calibrant.fit(method, P, y, reduction="canonical", progress=progress)
    assert fitted.to_document() == calibrant.fit(method, P, y, reduction="canonical").to_document()
    assert _rises(heard)
    if method.startswith(("matrix", "dirichlet", "iop")):
        assert "strengths outside folds" in {stage for _, _, stage in heard}


@pytest.mark.parametrize(("method", "options"), [("venn-abers", {}), ("spline", {"knots": None})])
def test_fits_of_events_tell_between_their_steps(method: str, options: dict[str, Any]) -> None:
    batch = _batch()
    heard, progress = _heard()
    calibrant.fit(method, batch.predictions.given, batch.labels, progress=progress, **options)
    assert len({done for done, _, _ in heard}) >= 2
    assert [done for done, _, _ in heard] == sorted(done for done, _, _ in heard)
