"""The calls of both clients, against the whole service."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from redis import Redis

import calibrant
from backend.store.clock import stamp
from backend.store.keyspace import new_id
from backend.store.store import Store
from calibrant.client import AsyncCalibrant, Calibrant, JobTimeout, ProblemResponse
from schemas.jobs import JobRecord, Progress
from service.settings import Settings
from service.stack import Stack
from tests.integration.clients import Kind, connected
from tests.integration.conftest import claimed, serving

NUMBERS = np.random.default_rng(8)
P = np.round(NUMBERS.uniform(size=300), 3)
Y = (NUMBERS.uniform(size=300) < P**2).astype(int)
GROUPS = np.where(NUMBERS.uniform(size=300) < 0.5, "a", "b")
PROBS = NUMBERS.dirichlet(np.ones(3), size=300)
LABELS = np.array([NUMBERS.choice(3, p=row) for row in PROBS])
INDEX = pd.RangeIndex(1000, 1300)


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Kind:
    param: Kind = request.param
    return param


@pytest.fixture
def either(kind: Kind, service: Stack) -> Iterator[Calibrant]:
    with connected(kind, service.url) as client:
        yield client


def _public(client: type) -> dict[str, inspect.Signature]:
    called = {name: member for name, member in vars(client).items() if callable(member) and not name.startswith("_")}
    return {name: inspect.signature(member) for name, member in called.items()}


def test_both_clients_have_the_same_calls_with_the_same_arguments() -> None:
    synchronous, other = _public(Calibrant), _public(AsyncCalibrant)
    assert {name: list(signature.parameters.values())[1:] for name, signature in synchronous.items()} == {
        name: list(signature.parameters.values())[1:] for name, signature in other.items()
    }
    assert len(synchronous) > 30
    for client in (Calibrant, AsyncCalibrant):
        assert all(inspect.getdoc(getattr(client, name)) for name in synchronous)


def test_rows_are_measured_and_fitted_without_a_stored_batch(either: Calibrant) -> None:
    asked: dict[str, Any] = {"measures": ["ece", "brier"], "interval": 0.9, "resamples": 100}
    report = either.evaluate(predictions=P, labels=Y == 1, groups=GROUPS, **asked)
    local = calibrant.evaluate(P, Y, **asked)
    assert report.measures["ece"].value == local.measures["ece"].value
    assert report.measures["ece"].interval == local.measures["ece"].interval
    assert report.groups is not None
    assert {name: group.n for name, group in report.groups.items()} == {g: GROUPS.tolist().count(g) for g in "ab"}
    fitted = either.fit("platt", predictions=P, labels=Y, options={}, tags={"x": "ä"}, description="é & ?")
    assert (fitted.tags, fitted.description) == ({"x": "ä"}, "é & ?")
    np.testing.assert_array_equal(either.calibrate(fitted.id, P), calibrant.load(fitted.document).apply(P))
    with pytest.raises(ProblemResponse) as refusal:
        either.evaluate(predictions=P + 2.0, labels=Y)
    assert (refusal.value.code, refusal.value.request_id is None) == ("out-of-range", False)


def test_a_report_is_shown_as_by_the_library(either: Calibrant) -> None:
    asked: dict[str, Any] = {"measures": ["ece", "brier"], "groups": GROUPS, "diagrams": ["reliability"]}
    stored = either.fit("platt", P, Y, name="shown")
    fitted = calibrant.load(stored.document)
    report, local = either.evaluate(P, Y, map="shown", **asked), calibrant.evaluate(P, Y, map=fitted, **asked)
    assert repr(report) == repr(local)
    assert report._repr_html_() == local._repr_html_()
    pd.testing.assert_frame_equal(report.to_frame(), local.to_frame())
    pd.testing.assert_frame_equal(report.to_frame(groups=True), local.to_frame(groups=True))
    assert report["ece"] is report.measures["ece"]
    assert report["brier"] < 1.0
    assert f"{report['ece']:.3f}" == f"{local['ece']:.3f}"
    assert len(repr(report["ece"])) < 200
    assert report.groups is not None
    assert local.groups is not None
    assert repr(report.groups["a"]) == repr(local.groups["a"])
    assert report.plot().get_ylabel() == "observed frequency"
    with pytest.raises(calibrant.CalibrationError, match=r'evaluate with diagrams=\["reliability"\]'):
        either.evaluate(P, Y).plot()
    assert pickle.loads(pickle.dumps(report)) == report
    compared, by_library = either.compare(P, Y, ["shown"]), calibrant.compare(P, Y, {"shown": fitted})
    assert repr(compared) == repr(by_library)
    pd.testing.assert_frame_equal(compared.to_frame(), by_library.to_frame())


def test_frames_go_in_and_come_out_with_index_name_and_columns(either: Calibrant) -> None:
    event = either.fit("isotonic", predictions=pd.Series(P), labels=pl.Series(Y)).id
    expected = either.calibrate(event, P)
    series = pd.Series(P, index=INDEX, name="spam")
    pd.testing.assert_series_equal(either.calibrate(event, series), pd.Series(expected, index=INDEX, name="spam"))
    assert either.calibrate(event, pl.Series("spam", P)).equals(pl.Series("spam", expected), check_names=True)
    assert either.calibrate(event, P.tolist()).tolist() == expected.tolist()

    frame = pd.DataFrame(PROBS, index=INDEX, columns=["eggs", "ham", "spam"])
    vector = either.fit("temperature", predictions=frame, labels=pd.Series(LABELS, index=INDEX)).id
    probs = either.calibrate(vector, PROBS)
    pd.testing.assert_frame_equal(
        either.calibrate(vector, frame), pd.DataFrame(probs, index=INDEX, columns=frame.columns)
    )
    columns = pl.DataFrame(PROBS, schema=["eggs", "ham", "spam"], orient="row")
    assert either.calibrate(vector, columns).equals(pl.DataFrame(probs, schema=columns.columns, orient="row"))
    confidence = either.fit("platt", predictions=columns, labels=LABELS).id
    pd.testing.assert_series_equal(
        either.calibrate(confidence, frame), pd.Series(either.calibrate(confidence, PROBS), index=INDEX)
    )


def test_a_batch_is_stored_appended_to_listed_and_forgotten(either: Calibrant) -> None:
    stored = either.upload(P, Y, weights=np.ones(300), groups=GROUPS, weights_kind="importance", ttl=60)
    assert (stored.arrays, stored.weights_kind) == (["predictions", "labels", "weights", "groups"], "importance")
    longer = either.append(stored.id, P[:2], Y[:2], weights=[1, 2], groups=["a", "c"])
    assert either.batch(stored.id) == longer
    assert (longer.n, longer in list(either.batches())) == (302, True)
    either.delete_batch(stored.id)
    with pytest.raises(ProblemResponse, match="404"):
        either.batch(stored.id)


def test_pictures_are_of_rows_and_of_maps(either: Calibrant) -> None:
    stored = either.fit("platt", predictions=P, labels=Y, name="client-pictures")
    asked = {"name": "reliability", "n_bins": 5}
    svg = either.diagram(asked, predictions=P, labels=Y, map=stored.id, theme="light", width=400)
    assert svg.startswith(b"<svg")
    assert either.diagram(batch=either.upload(P, Y).id, form="png").startswith(b"\x89PNG")
    sizes = {"name": "by-size", "measures": ["ks"], "start": 50, "start_repetitions": 4}
    assert b"Measures by test set size" in either.diagram(sizes, predictions=P, labels=Y, seed=1)
    pair = [either.upload(predictions, Y).id for predictions in (P, P**2)]
    assert b"Cost plane" in either.diagram({"name": "cost-plane", "cost_ratios": [5]}, batches=pair, theme="light")
    assert either.map_diagram(stored.id, width=400).startswith(b"<svg")
    assert either.map_diagram("client-pictures", "png").startswith(b"\x89PNG")


def test_every_call_that_becomes_a_job_is_waited_for(either: Calibrant) -> None:
    long = [{"name": "ece-pl", "folds": 2}]
    report = either.evaluate(predictions=P, labels=Y, measures=long, diagrams=["reliability"], timeout=600)
    assert report.measures["ece-pl"].value is not None
    job = next(either.jobs(kind="evaluate"))
    assert either.job_diagram(job.id, key="reliability").startswith(b"<svg")
    html = either.report_html(predictions=P, labels=Y, measures=long, diagrams=["reliability"], timeout=600)
    assert html.lower().startswith("<!doctype html>")
    assert either.diagram("fit-on-test", predictions=P, labels=Y, timeout=600).startswith(b"<svg")


def test_a_long_fit_reports_its_progress_and_its_map_is_applied(either: Calibrant) -> None:
    seen: list[str] = []
    stored = either.fit("pl", predictions=P, labels=Y, timeout=600, progress=lambda job: seen.append(job.status))
    assert stored.method == "pl"
    assert seen[-1] == "succeeded"
    assert seen == sorted(seen, key=["queued", "running", "succeeded"].index)


@pytest.mark.usefixtures("redis")
def test_a_job_that_takes_too_long_goes_on_and_is_named(kind: Kind, api: httpx.Client, store: Store) -> None:
    job = store.jobs.submit(_job())
    run = claimed(store, job.id)
    run.report(Progress(done=1, total=2))
    with connected(kind, str(api.base_url)) as client:
        with pytest.raises(JobTimeout, match=job.id) as late:
            client.wait(job.id, timeout=0.3)
        assert late.value.job_id == job.id
        assert [listed.id for listed in client.jobs(status="running", kind="fit")] == [job.id]
        assert client.cancel(job.id).status == "cancelled"
        assert [event.job.status for event in client.events(job.id)][-1] == "cancelled"


def test_a_cancelled_task_closes_its_stream_and_leaves_the_job(redis: Redis, redis_url: str, store: Store) -> None:
    job = store.jobs.submit(_job())
    with serving(Settings(redis_url, max_event_streams=1)) as url:
        asyncio.run(asyncio.wait_for(_follow_and_cancel(url, job.id), 120))
    assert store.jobs.get(job.id).status == "queued"


async def _follow_and_cancel(url: str, job_id: str) -> None:
    """Follow a job three times over the one place that there is for a stream, cancelled each time."""
    async with AsyncCalibrant(url, tries=1) as client:
        for _ in range(3):
            begun = asyncio.Event()
            following = asyncio.create_task(_follow(client, job_id, begun))
            await begun.wait()
            with pytest.raises(ProblemResponse, match="503"):
                await anext(client.events(job_id))
            following.cancel()
            with pytest.raises(asyncio.CancelledError):
                await following


async def _follow(client: AsyncCalibrant, job_id: str, begun: asyncio.Event) -> None:
    while True:
        try:
            async for _ in client.events(job_id):
                begun.set()
        except ProblemResponse as problem:
            if problem.code != "too-many-streams":  # the server has yet to notice that the one before has left
                raise


def _job() -> JobRecord:
    return JobRecord(id=new_id("job"), kind="fit", status="queued", created_at=stamp(), ttl=60, spec={})


def test_records_stand_for_their_ids(either: Calibrant) -> None:
    batch, fitted = either.upload(P, Y), either.fit("platt", predictions=P, labels=Y, name="recorded")
    expected = calibrant.fit("platt", P, Y).apply(P)
    np.testing.assert_allclose(either.calibrate(fitted, P), expected, atol=1e-12)
    report = either.evaluate(batch, map=fitted, measures=["brier"])
    assert report == either.evaluate(batch.id, map=fitted.id, measures=["brier"])
    assert either.compare(batch, [fitted], measures=["brier"]).comparison is not None
    assert either.map(fitted).id == either.map(either.map("recorded")).id == fitted.id
    assert either.fit("platt", batch).digest == fitted.digest
    assert either.create_monitor("recorded", map=fitted).map == fitted.id
    either.delete_monitor("recorded")
    either.delete_batch(batch)
    with pytest.raises(TypeError, match="pass an id or a name as a string, not int"):
        either.map(7)  # type: ignore[arg-type]


def test_maps_of_the_library_are_imported_as_they_are(either: Calibrant) -> None:
    fitted = calibrant.fit("platt", P, Y)
    assert either.import_map(fitted).digest == either.import_map(fitted.to_document()).digest
    of_forecasts = calibrant.fit_distribution("variance-scaling", P, mean=P**2, std=P + 0.1)
    assert either.import_map(of_forecasts).prediction_kind == "regression"


def test_a_stored_batch_is_the_first_argument_of_calls_on_forecasts_too(either: Calibrant) -> None:
    stored = either.upload_distribution(P, mean=P**2, std=P + 0.1)
    by_keyword = either.evaluate_distribution(batch=stored.id, measures=["crps"])
    assert either.evaluate_distribution(stored.id, measures=["crps"]) == by_keyword
    assert either.evaluate_distribution(stored, measures=["crps"]) == by_keyword
    assert either.fit_distribution("variance-scaling", stored).n == 300


def test_a_stored_batch_is_calibrated_like_its_rows(either: Calibrant) -> None:
    stored, fitted = either.upload(P, Y), either.fit("platt", P, Y)
    for batch in (stored, stored.id):
        assert_array_equal(either.calibrate(fitted.id, batch), either.calibrate(fitted.id, P))
    of_sets, vectors = either.fit("lac", PROBS, LABELS), either.upload(PROBS, LABELS)
    expected = either.calibrate_sets(of_sets.id, PROBS).sets.members
    assert_array_equal(either.calibrate_sets(of_sets.id, vectors).sets.members, expected)
    forecasts: dict[str, Any] = {"mean": P**2, "std": P + 0.1}
    scaled, stored = (
        either.fit_distribution("variance-scaling", P, **forecasts),
        either.upload_distribution(P, **forecasts),
    )
    by_batch = either.calibrate_distribution(scaled.id, batch=stored)
    assert_array_equal(by_batch.variance, either.calibrate_distribution(scaled.id, **forecasts).variance)


def test_the_columns_of_a_frame_of_quantiles_name_the_levels_of_calls_too(either: Calibrant) -> None:
    levels = [0.1, 0.5, 0.9]
    quantiles = np.sort(NUMBERS.normal(size=(300, 3)), axis=1)
    expected = either.evaluate_distribution(P, quantiles=quantiles, levels=levels)
    for frame in (pd.DataFrame(quantiles, columns=levels), pl.DataFrame(quantiles, schema=["q0.1", "q0.5", "q0.9"])):
        assert either.evaluate_distribution(P, quantiles=frame) == expected


def test_one_map_needs_no_list_and_one_batch_has_no_power_law(either: Calibrant) -> None:
    stored, fitted = [either.upload(P, Y).id for _ in range(2)], either.fit("platt", predictions=P, labels=Y)
    single, listed = (either.power_law(stored, maps=maps, measures=["brier"]) for maps in (fitted.id, [fitted]))
    assert single == listed
    with pytest.raises(ProblemResponse, match="at least 2 items"):
        either.power_law(stored[0], measures=["brier"])


def test_arguments_of_another_form_are_not_taken_for_names(either: Calibrant) -> None:
    stored = either.fit("platt", predictions=P, labels=Y, tags={"team": "mail"})
    assert stored.id in [record.id for record in either.maps(tags="team=mail")]
    with pytest.raises(TypeError, match="maps must be a list of ids or names"):
        either.compare(P, Y, {"mine": stored})
    with pytest.raises(ValueError, match="form must be one of svg, png"):
        either.diagram("reliability", P, Y, form="pdf")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="form must be one of svg, png"):
        either.map_diagram(stored, "pdf")  # type: ignore[arg-type]
