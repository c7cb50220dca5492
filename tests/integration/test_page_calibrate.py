"""Files that a map's page calibrates: what comes back, in which format, and what is refused."""

from __future__ import annotations

import csv
import gzip
import io
import re
from typing import Any

import httpx
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from redis import Redis

import calibrant
from backend.store.api_keys import ApiKeyStore
from service.settings import Settings
from service.web.upload import CALIBRATE_FIELDS, IN_ORDER_FIELDS, UPLOAD_FIELDS
from tests.integration.conftest import SharedApi, one_place_taken, serving
from tests.integration.responses import body_of, text_of
from tests.integration.visiting import ROWS, Visitor, message_beside
from tests.packed import arrow, npz, parquet

LIMIT = 40_000
CSV = b'id,p,note\n7,0.125,=1+2\n8,0.875,"a, b"\n9,0.5,\n'
CLASSES = {
    "predictions": [[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6], [0.4, 0.3, 0.3]] * 10,
    "labels": [0, 1, 2, 1, 0, 1, 2, 0] * 5,
    "class_names": ["bird", "cat", "dog"],
}


@pytest.fixture
def url(redis: Redis, shared_api: SharedApi) -> str:
    return shared_api.url(max_body_bytes=LIMIT, max_rows=5000)


def _fit(http: httpx.Client, **options: object) -> str:
    return str(body_of(http.post("/maps", json=ROWS | {"method": "platt", "name": "spam"} | options), 201)["id"])


def _send(
    visitor: Visitor, ref: str, content: bytes, name: str = "rows.csv", token: str | None = None, **fields: str
) -> httpx.Response:
    form: dict[str, Any] = fields | ({} if token is None else {"csrf_token": token})
    return visitor.upload(content, name, f"/ui/calibrate/{ref}", **form)


def _applied(visitor: Visitor, ref: str, predictions: list[float]) -> list[float]:
    fitted = calibrant.load(visitor.get(f"/maps/{ref}/document").json())
    return [float(p) for p in fitted.apply(predictions)]


def test_a_set_map_adds_a_column_for_each_class(visitor: Visitor) -> None:
    options = {"method": "lac", "options": {"conditional": "group"}, "groups": ["north", "south"] * 20}
    ref = str(body_of(visitor.post("/maps", json=CLASSES | options), 201)["id"])
    rows = "id,bird,cat,dog,group\n7,0.7,0.2,0.1,north\n8,0.1,0.3,0.6,south\n"
    answer = text_of(_send(visitor, ref, rows.encode()))
    header, *cells = csv.reader(io.StringIO(answer))
    assert header[5:] == ["set_bird", "set_cat", "set_dog"]
    fitted = calibrant.load_sets(visitor.get(f"/maps/{ref}/document").json())
    sets = fitted.apply([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], groups=["north", "south"])
    assert [row[5:] for row in cells] == sets.members.astype(int).astype(str).tolist()
    unseen = text_of(_send(visitor, ref, rows.replace("south", "west").encode()), 422)
    assert "must be a group of the map" in unseen or "not a group of the map" in unseen


def test_a_map_of_segments_takes_the_columns_of_its_features(visitor: Visitor) -> None:
    random = np.random.default_rng(1)
    p, site = random.random(400), random.choice(["n", "s"], 400)
    y = (random.random(400) < np.where(site == "n", p**3, p**0.3)).astype(int)
    rows = {"predictions": p.tolist(), "labels": y.tolist(), "features": {"site": site.tolist()}, "method": "segments"}
    ref = str(body_of(visitor.post("/maps", json=rows), 201)["id"])
    page = visitor.get(f"/ui/maps/{ref}").text
    assert "with the features of each row" in page
    assert "<code>site</code>" in page
    answer = text_of(_send(visitor, ref, b"id,p,site\n7,0.5,n\n8,0.5,s\n9,0.5,\n", predictions="p"))
    _, *cells = csv.reader(io.StringIO(answer))
    fitted = calibrant.load(visitor.get(f"/maps/{ref}/document").json())
    expected = fitted.apply([0.5] * 3, features={"site": ["n", "s", None]})
    assert [float(row[3]) for row in cells] == pytest.approx(expected, abs=1e-12)
    assert float(cells[0][3]) < float(cells[1][3])
    missing = text_of(_send(visitor, ref, b"id,p\n7,0.5\n", predictions="p"), 422)
    assert "site" in missing


def test_a_randomised_set_map_takes_its_groups_and_a_seed(visitor: Visitor) -> None:
    options = {"method": "aps", "options": {"conditional": "group", "randomised": True}}
    body = CLASSES | options | {"groups": ["north", "south"] * 20}
    ref = str(body_of(visitor.post("/maps", json=body), 201)["id"])
    assert {"groups-hint", "seed-hint"} <= {*re.findall(r'<p id="([\w-]+)"', visitor.get(f"/ui/maps/{ref}").text)}
    rows = b"bird,cat,dog,where\n0.7,0.2,0.1,north\n0.1,0.3,0.6,south\n"
    answer = text_of(_send(visitor, ref, rows, groups="where", seed="5"))
    _, *cells = csv.reader(io.StringIO(answer))
    fitted = calibrant.load_sets(visitor.get(f"/maps/{ref}/document").json())
    sets = fitted.apply([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], groups=["north", "south"], seed=5)
    assert [row[4:] for row in cells] == sets.members.astype(int).astype(str).tolist()
    for seed in ("", "-1", "1.5", "x", "99999999999", "4294967296", "\u0663"):
        refused = _send(visitor, ref, rows, groups="where", seed=seed)
        assert message_beside(refused, "seed"), seed


def test_an_adjustable_set_map_takes_another_error_level(visitor: Visitor) -> None:
    body = CLASSES | {"method": "lac", "options": {"adjustable": True}}
    ref = str(body_of(visitor.post("/maps", json=body), 201)["id"])
    assert 'id="alpha-hint"' in visitor.get(f"/ui/maps/{ref}").text
    rows = b"bird;cat;dog\n0,7;0,2;0,1\n0,1;0,3;0,6\n"
    fitted = calibrant.load_sets(visitor.get(f"/maps/{ref}/document").json())
    for alpha in ("0,4", "0", "1"):
        answer = text_of(_send(visitor, ref, rows, alpha=alpha, decimal=","))
        _, *written = csv.reader(io.StringIO(answer), delimiter=";")
        members = fitted.at(float(alpha.replace(",", "."))).apply([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]).members
        assert [row[3:] for row in written] == members.astype(int).astype(str).tolist()
    for alpha in ("x", "nan", "inf", "0.1.2"):
        refused = _send(visitor, ref, rows, alpha=alpha, decimal=",")
        assert message_beside(refused, "alpha"), alpha


def test_a_venn_abers_map_adds_its_bounds_if_they_are_chosen(visitor: Visitor) -> None:
    ref = _fit(visitor, method="venn-abers")
    answer = text_of(_send(visitor, ref, b"p\n0.125\n0.875\n", bounds="yes"))
    header, *cells = csv.reader(io.StringIO(answer))
    assert header == ["p", "calibrated", "calibrated_p0", "calibrated_p1"]
    fitted = calibrant.load(visitor.get(f"/maps/{ref}/document").json())
    low, high = fitted.bounds([0.125, 0.875])
    expected = np.column_stack([fitted.apply([0.125, 0.875]), low, high])
    np.testing.assert_array_equal(np.array(cells)[:, 1:].astype(float), expected)
    assert _send(visitor, ref, b"p\n0.125\n").text.splitlines()[0] == "p,calibrated"
    other = _send(visitor, _fit(visitor, name="other"), b"p\n0.125\n", bounds="yes")
    assert other.status_code == 422


def test_the_file_comes_back_with_its_own_columns_and_the_version_in_its_name(visitor: Visitor) -> None:
    ref = _fit(visitor)
    answer = _send(visitor, ref, CSV, "march rows.csv")
    assert answer.status_code == 200
    header, *rows = csv.reader(io.StringIO(answer.text))
    assert header == ["id", "p", "note", "calibrated"]
    assert [row[:3] for row in rows] == [["7", "0.125", "=1+2"], ["8", "0.875", "a, b"], ["9", "0.5", ""]]
    assert [float(row[3]) for row in rows] == _applied(visitor, ref, [0.125, 0.875, 0.5])
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith('attachment; filename="march_rows-spam-v1.csv"')
    assert disposition.endswith("filename*=UTF-8''march%20rows-spam-v1.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert int(answer.headers["content-length"]) == len(answer.content)
    by_name = _send(visitor, "spam", CSV)
    assert by_name.text == answer.text


def test_the_names_of_classes_become_names_of_columns_whatever_their_order_in_the_file(visitor: Visitor) -> None:
    ref = _fit(visitor, method="temperature", **CLASSES)
    answer = _send(visitor, ref, b"prob_dog,prob_bird,prob_cat\n0.1,0.7,0.2\n")
    header, row = csv.reader(io.StringIO(answer.text))
    assert header[3:] == ["calibrated_bird", "calibrated_cat", "calibrated_dog"]
    assert float(row[3]) > float(row[4]) > float(row[5])
    assert sum(map(float, row[3:])) == pytest.approx(1.0)


def test_a_decimal_comma_and_its_separator_are_kept(visitor: Visitor) -> None:
    ref = _fit(visitor)
    text = b"id;score;p\n1;2,5;0,125\n"
    assert message_beside(_send(visitor, ref, text, predictions="p"), "decimal")
    answer = _send(visitor, ref, text, predictions="p", decimal=",")
    header, row = csv.reader(io.StringIO(answer.text), delimiter=";")
    assert header == ["id", "score", "p", "calibrated"]
    assert row[:3] == ["1", "2,5", "0,125"]
    assert float(row[3].replace(",", ".")) == _applied(visitor, ref, [0.125])[0]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_parquet_and_arrow_keep_their_format_and_columns(visitor: Visitor, kind: str) -> None:
    ref = _fit(visitor)
    table = {"p": [0.125, 0.875], "site": ["north", None]}
    answer = _send(visitor, ref, parquet(table) if kind == "parquet" else arrow(table, file=True), f"rows.{kind}")
    assert answer.status_code == 200, answer.text
    assert f"rows-spam-v1.{kind}" in answer.headers["content-disposition"]
    content = pyarrow.BufferReader(answer.content)
    written = pyarrow.parquet.read_table(content) if kind == "parquet" else pyarrow.ipc.open_file(content).read_all()
    assert written.column_names == ["p", "site", "calibrated"]
    assert written.column("site").to_pylist() == ["north", None]
    assert written.column("calibrated").to_pylist() == _applied(visitor, ref, [0.125, 0.875])


def test_an_archive_and_compressed_rows_become_csv(visitor: Visitor) -> None:
    ref = _fit(visitor)
    answer = _send(visitor, ref, npz(p=np.array([0.125, 0.875])), "rows.npz")
    assert [float(line) for line in answer.text.splitlines()[1:]] == _applied(visitor, ref, [0.125, 0.875])
    packed = _send(visitor, ref, gzip.compress(CSV), "rows.csv.gz")
    assert packed.text == _send(visitor, ref, CSV).text
    assert 'filename="rows-spam-v1.csv"' in packed.headers["content-disposition"]


def test_a_map_of_logits_reads_logits(visitor: Visitor) -> None:
    ref = _fit(visitor, predictions=[-2.0] * 20 + [2.0] * 20, scale="logit")
    answer = _send(visitor, ref, b"logit\n-3.5\n3.5\n")
    assert [float(line.split(",")[1]) for line in answer.text.splitlines()[1:]] == _applied(visitor, ref, [-3.5, 3.5])


@pytest.mark.parametrize(
    ("content", "field", "message"),
    [
        (b"", "file", "he file is empty"),
        (b"p\n", "file", "no rows"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "file", "image"),
        (b"p,calibrated\n0.5,1\n", "file", "already has a column"),
        (b"p,note\n0.5\n", "file", "the header has 2"),
        (b"p\n50\n75\n", "scale", "percent"),
        (b"prob_0,prob_1,prob_2\n0.5,0.25,0.25\n", "predictions", ""),
        (b"first,second\n0.5,0.25\n", "predictions", ""),
        (b"p\n" + b"0.5\n" * 6000, "file", "limit of 5,000 rows"),
        (b"p\n" + b"0.125\n" * LIMIT, "file", "at most 40,000 bytes"),
    ],
)
def test_a_file_that_cannot_be_calibrated_is_refused_next_to_its_field(
    visitor: Visitor, content: bytes, field: str, message: str
) -> None:
    refused = _send(visitor, _fit(visitor), content)
    assert refused.status_code in (413, 422)
    assert f'<p id="{field}-hint" class="error"' in refused.text
    assert message in refused.text
    assert "<h1>spam, version 1</h1>" in refused.text
    assert "content-disposition" not in refused.headers


def test_rows_of_another_number_of_classes_are_refused(visitor: Visitor) -> None:
    ref = _fit(visitor, method="temperature", **CLASSES)
    for content in (b"p\n0.5\n", b"prob_0,prob_1\n0.5,0.5\n", b"a,b,c,d\n0.25,0.25,0.25,0.25\n"):
        assert message_beside(_send(visitor, ref, content), "predictions")


def test_a_form_of_another_origin_or_without_its_token_is_refused(visitor: Visitor) -> None:
    ref = _fit(visitor)
    assert _send(visitor, ref, CSV, token="guessed").status_code == 403
    files = {"file": ("rows.csv", CSV)}
    for headers in ({}, {"Origin": "https://elsewhere"}):
        assert visitor.post(f"/ui/calibrate/{ref}", files=files, headers=headers).status_code == 403
    unknown = _send(visitor, "nobody", CSV)
    assert (unknown.status_code, "Unknown map" in unknown.text) == (404, True)
    back = visitor.get(f"/ui/calibrate/{ref}")
    assert (back.status_code, back.headers["location"]) == (303, f"/ui/maps/{ref}#calibrate")


def test_hostile_file_names_stay_within_the_header_and_the_folder(visitor: Visitor) -> None:
    answer = _send(visitor, _fit(visitor), CSV, '../../a";x=y \u00e9\u202e.csv')
    disposition = answer.headers["content-disposition"]
    assert "/" not in disposition.removeprefix("attachment")
    assert disposition.count('"') == 2
    assert disposition.isascii()


def test_a_reader_may_calibrate_but_only_by_maps_of_its_tenant(redis: Redis, redis_url: str) -> None:
    keys = ApiKeyStore(redis)
    owner = keys.create("o", tenant="one", scope="write").text
    reader = keys.create("r", tenant="one", scope="read").text
    other = keys.create("n", tenant="two", scope="write").text
    with serving(Settings(redis_url)) as url, httpx.Client(base_url=url, timeout=600) as http:
        http.headers["Authorization"] = f"Bearer {owner}"
        ref = _fit(http)
        with Visitor(url) as mine, Visitor(url) as theirs:
            mine.sign_in(reader)
            theirs.sign_in(other)
            text = mine.get(f"/ui/maps/{ref}").text
            assert "Calibrate the file" in text
            assert "Delete this version" not in text
            token = mine.token()
            assert _send(mine, ref, CSV, token=token).status_code == 200
            assert _send(theirs, ref, CSV, token=theirs.token()).status_code == 404
        with Visitor(url) as stranger:
            assert stranger.post(f"/ui/calibrate/{ref}").status_code in (303, 403)


@pytest.mark.slow
def test_a_large_file_takes_one_of_few_places(redis: Redis, redis_url: str) -> None:
    packed = gzip.compress(b"p\n" + b"0.125\n0.875\n" * 200_000)
    with (
        serving(Settings(redis_url, max_heavy_requests=1, max_waiting_requests=0, store_timeout=600)) as url,
        Visitor(url) as visitor,
    ):
        ref, token = _fit(visitor), visitor.token("/")
        with one_place_taken(redis, url):
            refused = _send(visitor, ref, packed, "rows.csv.gz", token)
            assert (refused.status_code, int(refused.headers["retry-after"]) >= 1) == (503, True)  # an estimate
        for _ in range(2):
            answer = text_of(_send(visitor, ref, packed, "rows.csv.gz"))
            assert answer.count("\n") == 400_001


@pytest.mark.slow
def test_space_for_temporary_files_is_reserved_and_released_after_a_disconnect(redis: Redis, redis_url: str) -> None:
    n = 100_000
    packed = gzip.compress(b"p,note\n" + b"0.125,%s\n" % (b"x" * 400) * n)  # 40 MB, too much for memory
    with serving(Settings(redis_url, max_spool_bytes=60 << 20)) as url, Visitor(url) as visitor:
        refused = _send(visitor, _fit(visitor), packed, "rows.csv.gz")
        assert (refused.status_code, 'id="file-hint" class="error"' in refused.text) == (507, True)
    with serving(Settings(redis_url, max_spool_bytes=200 << 20)) as url, Visitor(url) as visitor:
        form, files = {"csrf_token": visitor.token("/")}, {"file": ("rows.csv.gz", packed)}
        with visitor.stream("POST", "/ui/calibrate/spam", data=form, files=files) as answer:
            assert answer.status_code == 200
            assert next(answer.iter_bytes(10)) == b"p,note,cal"
        assert _send(visitor, "spam", packed, "rows.csv.gz").content.count(b"\n") == n + 1


@pytest.mark.parametrize("content", [b"p\n-1.5\n2.5\n", b"p,y\n0.25,1\n\n,0\n"])
def test_a_message_about_a_field_that_the_form_lacks_is_shown_beside_the_file(visitor: Visitor, content: bytes) -> None:
    refused = text_of(_send(visitor, _fit(visitor), content), 422)
    errors = re.findall(r'<p id="(\w+)-hint" class="error"', refused)
    assert len(errors) == 1


@pytest.mark.parametrize(
    ("path", "fields"),
    [("/", UPLOAD_FIELDS), ("/ui/in-order", IN_ORDER_FIELDS), ("", CALIBRATE_FIELDS["classification"])],
)
def test_the_fields_of_a_form_are_those_of_its_page(visitor: Visitor, path: str, fields: tuple[str, ...]) -> None:
    text = visitor.get(path or f"/ui/maps/{_fit(visitor)}").text
    assert {*re.findall(r'<p id="(\w+)-hint"', text)} == {*fields} - {"mapping"}
