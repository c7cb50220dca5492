"""Predictive distributions of a number on the page: from a file to its report, a map, and the calibrated file."""

from __future__ import annotations

import csv
import io
from typing import Any

import httpx
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from redis import Redis

import calibrant
from backend.store.api_keys import ApiKeyStore
from backend.store.store import Store
from service.settings import Settings
from tests.integration.conftest import SharedApi, serving
from tests.integration.responses import text_of
from tests.integration.visiting import ROWS, Visitor, message_beside
from tests.packed import parquet

N = 400


def _rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Means and outcomes; the standard deviation is 2, but the forecasts say 1."""
    random = np.random.default_rng(seed)
    mean = random.normal(size=N)
    return mean, mean + 2.0 * random.normal(size=N)


def _csv(header: str, *columns: object) -> bytes:
    lines = [",".join(str(cell) for cell in row) for row in zip(*columns, strict=True)]
    return "\n".join([header, *lines, ""]).encode()


MEAN, OBSERVED = _rows()
NORMAL = _csv("y,mean,std,site", OBSERVED, MEAN, np.ones(N), ["north", "south"] * (N // 2))
INTERVALS = _csv("y,lower,upper", OBSERVED, MEAN - 1.0, MEAN + 1.0)


@pytest.fixture
def url(redis: Redis, shared_api: SharedApi) -> str:
    return shared_api.url(max_body_bytes=400_000)


def _send(visitor: Visitor, content: bytes, *, part: bool = False, **fields: str) -> httpx.Response:
    return visitor.upload(content, part=part, prediction_kind="regression", **fields)


def _path(answer: httpx.Response) -> str:
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


@pytest.mark.slow
def test_a_file_leads_to_its_report_with_a_recommended_map(visitor: Visitor, store: Store) -> None:
    path = _path(_send(visitor, NORMAL, groups="site"))
    batch = visitor.get(path.replace("/ui/reports", "/batches")).json()
    assert (batch["prediction_kind"], batch["n"], batch["forecasts"]["kind"]) == ("regression", N, "normal")
    assert store.uploads.get(batch["id"]).file == "rows.csv"
    text = visitor.get(path).text
    assert "<bdi>rows.csv</bdi>" in text
    assert "Coverage is lowest in" in text
    assert "observed: column &#39;y&#39; (inferred from its name)" in text
    assert text.count("<h1") == 1
    assert "location-scale (recommended)" in text
    whole = visitor.get(f"{path}/report.html")
    assert whole.text.startswith("<!doctype html>")
    assert "rows.csv" in whole.text
    report = visitor.get(f"{path}/report.json").json()
    assert report["measures"]["coverage"]["value"] < 0.8
    assert report["recommendation"]["recommended"] == "location-scale"


def test_a_covariate_of_a_file_is_in_the_report(visitor: Visitor) -> None:
    text = visitor.get(_path(_send(visitor, NORMAL, by="site"))).text
    assert "Coverage by column" in text
    assert "is not proven to differ from" in text or "differs from" in text
    assert visitor.get("/").text.count('name="by"') == 1


def test_intervals_have_a_level_and_a_fan_chart_needs_times(visitor: Visitor) -> None:
    assert message_beside(_send(visitor, INTERVALS), "level")
    path = _path(_send(visitor, INTERVALS, level="0.9"))
    report = visitor.get(f"{path}/report.json").json()
    assert (report["kind"], report["intervals"]["level"]) == ("interval", 0.9)
    timed = _csv("day,y,mean,std", range(N), OBSERVED, MEAN, np.ones(N))
    path = _path(_send(visitor, timed, times="day"))
    assert visitor.get(f"{path}/report.json").json()["diagrams"]["fan"]["data"] is not None


def test_a_map_is_fitted_to_the_report_and_calibrates_files(visitor: Visitor) -> None:
    path = _path(_send(visitor, NORMAL))
    answer = visitor.submit(f"{path}/fit", {"method": "variance-scaling", "name": "rain"})
    page = _path(answer)
    ref = page.rsplit("/", 1)[1]
    text = visitor.get(page).text
    assert "Calibrate a file" in text
    assert "calibrated_mean" in text
    after = visitor.get(f"{path}?map={ref}")
    assert "After the map" in after.text
    fitted = calibrant.load_distribution(visitor.get(f"/maps/{ref}/document").json())
    expected = fitted.apply(mean=MEAN[:3], variance=np.ones(3))
    rows = _csv("id,mean,std", [7, 8, 9], MEAN[:3], np.ones(3))
    answer = visitor.upload(rows, "new.csv", f"/ui/calibrate/{ref}")
    header, *lines = csv.reader(io.StringIO(answer.text))
    assert header == ["id", "mean", "std", "calibrated_mean", "calibrated_std"]
    assert [float(line[4]) for line in lines] == np.sqrt(expected.variance).tolist()
    assert answer.headers["content-disposition"].startswith('attachment; filename="new-rain-v1.csv"')
    rows = parquet({"mu": MEAN[:3], "s": np.ones(3)})
    answer = visitor.upload(rows, "new.parquet", f"/ui/calibrate/{ref}", predictions="mean=mu, std=s")
    table = pyarrow.parquet.read_table(io.BytesIO(answer.content))
    assert table.column_names == ["mu", "s", "calibrated_mean", "calibrated_std"]
    assert visitor.upload(b"lower,upper\n1,2\n", to=f"/ui/calibrate/{ref}").status_code == 422
    classes = visitor.post("/batches", json={"predictions": [0.1, 0.9], "labels": [0, 1]}).json()["id"]
    refused = text_of(visitor.get(f"/ui/reports/{classes}?map={ref}"), 422)
    assert "regression" in refused


def test_a_map_of_groups_takes_the_group_of_each_row(visitor: Visitor) -> None:
    names = ["a", "b"] * (N // 2)
    body = {"mean": MEAN.tolist(), "variance": [1.0] * N, "observed": OBSERVED.tolist(), "by": names}
    fitted = visitor.post("/maps", json=body | {"prediction_kind": "regression", "method": "variance-scaling"})
    ref = fitted.json()["id"]
    rows = _csv("mean,std,place", MEAN[:2], np.ones(2), names[:2])
    answer = text_of(visitor.upload(rows, to=f"/ui/calibrate/{ref}", by="place"))
    header, first, second = csv.reader(io.StringIO(answer))
    assert header[3:] == ["calibrated_mean", "calibrated_std"]
    assert first[4] != second[4]
    assert message_beside(visitor.upload(rows, to=f"/ui/calibrate/{ref}"), "by")


@pytest.mark.parametrize(
    ("content", "fields", "place", "words"),
    [
        (NORMAL, {"predictions": "mean, std"}, "predictions", "such as mean=mu"),
        (NORMAL, {"predictions": "mean=y, mean=std"}, "predictions", "different part=column"),
        (NORMAL, {"predictions": "mean=<b>, std=std"}, "predictions", "no column"),
        (NORMAL, {"predictions": "median=mean"}, "predictions", "median"),
        (INTERVALS, {"level": "1.5"}, "level", "above 0 and below 1"),
        (INTERVALS, {"level": "nan"}, "level", "above 0 and below 1"),
        (INTERVALS, {"level": "0.9_5"}, "level", "above 0 and below 1"),
        (INTERVALS, {"level": ".0"}, "level", "above 0 and below 1"),
        (NORMAL, {"labels": "nowhere"}, "labels", "no column"),
        (NORMAL, {"clusters": "nowhere"}, "clusters", "no column"),
        (NORMAL, {"times": "nowhere"}, "times", "no column"),
        (_csv("y,mean,std", [1, 2, 3], [1, 2, 3], [1, -1, 1]), {}, "predictions", "row 2"),
        (_csv("y,q0.1,q0.9", [1, 2, 3], [1, 5, 3], [2, 1, 4]), {}, "predictions", "row 2"),
        (_csv("y,mean,std", [1, "inf", 3], [1, 2, 3], [1, 1, 1]), {}, "labels", "Row 2"),
        (b"mean,std\n1,2\n", {}, "labels", ""),
        (b"a,b\n1,2\n", {}, "predictions", ""),
    ],
)
@pytest.mark.parametrize("part", [True, False])
def test_an_error_is_shown_next_to_its_field(
    visitor: Visitor, content: bytes, fields: dict[str, str], place: str, words: str, part: bool
) -> None:
    refused = _send(visitor, content, part=part, **fields)
    assert words in message_beside(refused, place)
    assert '<option value="regression" selected>' in refused.text
    assert "<b>" not in refused.text
    assert visitor.get("/batches").json()["items"] == []


def test_only_a_job_of_a_report_is_shown_as_one(visitor: Visitor, store: Store) -> None:
    body = {
        "prediction_kind": "regression",
        "mean": MEAN.tolist(),
        "variance": [1.0] * N,
        "observed": OBSERVED.tolist(),
    }
    batch = visitor.post("/batches", json=body).json()["id"]
    asked = {"prediction_kind": "regression", "batch": batch}
    later = {"Prefer": "respond-async"}
    plain = visitor.post("/evaluate", json=asked, headers=later).json()["id"]
    assert visitor.get(f"/ui/reports/{batch}?job={plain}").status_code == 404
    report = visitor.post("/evaluate", json=asked, headers=later | {"Accept": "text/html"}).json()["id"]
    store.uploads.remember_report(batch, report, [], ttl=60)
    assert visitor.get(f"/ui/reports/{batch}").headers["location"] == f"/ui/jobs/{report}"
    assert visitor.get(f"/ui/jobs/{plain}").status_code == 200


def test_a_batch_without_outcomes_has_no_report(visitor: Visitor) -> None:
    body = {"prediction_kind": "regression", "mean": [1.0, 2.0], "variance": [1.0, 1.0]}
    batch = visitor.post("/batches", json=body).json()["id"]
    refused = text_of(visitor.get(f"/ui/reports/{batch}"), 422)
    assert "Observed is missing" in refused


def test_the_catalogues_list_methods_and_measures_of_both_kinds(visitor: Visitor) -> None:
    for path, of_numbers in (("measures", "crps"), ("diagrams", "fan"), ("methods", "variance-platt")):
        known = visitor.get(f"/ui/{path}?prediction_kind=regression").text
        assert f'id="{of_numbers}"' in known
        assert f'href="/{path}?prediction_kind=regression"' in known
        other = visitor.get(f"/ui/{path}").text
        assert f'id="{of_numbers}"' not in other
        assert f'href="/ui/{path}?prediction_kind=regression"' in other
        refused = visitor.get(f"/ui/{path}?prediction_kind=%3Cb%3E")
        assert (refused.status_code, "<b>" in refused.text) == (422, False)
    visitor.post("/maps", json=ROWS | {"method": "platt"})
    assert '<option value="variance-platt">' in visitor.get("/ui/maps").text


# --- In the order of time

DAYS = np.datetime64("2026-01-01") + np.arange(N) // 4
KNOWN = ["" if i >= N - 8 else str(day + 1) for i, day in enumerate(DAYS)]
HORIZON = np.arange(N) % 2
ORDERED = _csv(
    "y,mean,std,made,known,h",
    ["" if not text else y for y, text in zip(OBSERVED, KNOWN, strict=True)],
    MEAN,
    np.ones(N),
    DAYS,
    KNOWN,
    HORIZON,
)
CHOICES: dict[str, Any] = {
    "times": "made",
    "known": "known",
    "half_life": "7",
    "by": "h",
    "shift": "0.5",
    "support": "-100,",
}


def _in_order(visitor: Visitor, content: bytes, name: str = "rows.csv", **fields: str) -> httpx.Response:
    return visitor.upload(content, name, "/ui/in-order", **CHOICES | fields)


def test_a_file_is_recalibrated_in_the_order_of_time(visitor: Visitor) -> None:
    assert 'href="/ui/in-order"' in visitor.get("/ui/maps").text
    answer = _in_order(visitor, ORDERED)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"].startswith('attachment; filename="rows-recalibrated.csv"')
    header, *lines = csv.reader(io.StringIO(answer.text))
    assert header == ["y", "mean", "std", "made", "known", "h", "calibrated_mean", "calibrated_std"]
    wanted = calibrant.recalibrate_in_order(
        OBSERVED, DAYS, KNOWN, half_life=7.0, horizon=HORIZON, shift=0.5, mean=MEAN, variance=np.ones(N)
    )
    corrected = np.array([line[6:] for line in lines], np.float64)
    np.testing.assert_allclose(corrected[:, 0], wanted.forecasts.mean, rtol=1e-12)
    np.testing.assert_allclose(corrected[:, 1] ** 2, wanted.forecasts.variance, rtol=1e-12)
    assert wanted.factors.max() > 1.5


def test_a_reader_may_recalibrate_in_the_order_of_time(redis: Redis, redis_url: str) -> None:
    key = ApiKeyStore(redis).create("r", tenant="one", scope="read").text
    with serving(Settings(redis_url)) as url, Visitor(url) as visitor:
        visitor.sign_in(key)
        assert _in_order(visitor, ORDERED).status_code == 200
        assert _send(visitor, NORMAL).status_code == 403


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"times": ""}, "times", "Name the column"),
        ({"known": ""}, "known", "Name the column"),
        ({"known": "nope"}, "known", "no column"),
        ({"known": "made"}, "known", "cannot be used for both"),
        ({"half_life": ""}, "half_life", "is missing"),
        ({"half_life": "0"}, "half_life", "greater than 0"),
        ({"half_life": "<b>"}, "half_life", "number"),
        ({"half_life": "1e400"}, "half_life", "number"),
        ({"shift": "2"}, "shift", "less than or equal to 1"),
        ({"support": "5,1"}, "support", "support"),
        ({"support": "a,b"}, "support", "JSON"),
        ({"outcome_scale": "log1p"}, "outcome_scale", "identity"),
        ({"by": "known"}, "known", "cannot be used for both"),
        ({"times": "h", "by": "made"}, "known", "like"),
    ],
)
def test_an_error_in_the_order_of_time_is_shown_beside_its_field(
    visitor: Visitor, changes: dict[str, str], field: str, message: str
) -> None:
    answer = _in_order(visitor, ORDERED, **changes)
    assert message in message_beside(answer, field)
    assert "<b>" not in answer.text


@pytest.mark.parametrize(
    ("content", "field", "message"),
    [
        (b"", "file", "empty"),
        (b"y,mean,std,made,known,h\n", "file", "row"),
        (b"y,mean,std,made,known,h\n1,0,1,2026-01-01,,0\nx,0,1,2026-01-01,,0\n", "labels", "Row 2"),
        (b"y,mean,std,made,known,h\ninf,0,1,2026-01-01,,0\n", "labels", "Row 1"),
        (b"y,mean,std,made,known,h\n1,0,1,,,0\n", "file", "made"),
        (b"y,mean,std,made,known,h\n1,0,1,monday,,0\n", "times", "dates in ISO 8601"),
        (b"y,mean,std,made,known,h\n1,0,1,2026-01-02,2026-01-01,0\n", "known", "later than"),
        (b"y,mean,std,made,known,h\n1,0,1,2026-01-02,2026-01-03,soon\n", "by", "numbers"),
        (b"y,mean,std,made,known,h\n1,0,,2026-01-02,2026-01-03,1\n", "predictions", "std"),
    ],
)
def test_files_that_cannot_be_recalibrated_are_refused(
    visitor: Visitor, content: bytes, field: str, message: str
) -> None:
    assert message in message_beside(_in_order(visitor, content), field)
