"""The form of an upload over HTTP: what it refuses and where it says so, and what it keeps."""

from __future__ import annotations

import gzip
import re
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.store.store import Store
from service.settings import Settings
from service.web.jobs import JobView
from tests.integration.conftest import SharedApi, one_place_taken, serving
from tests.integration.responses import body_of, text_of
from tests.integration.sockets import begun
from tests.integration.visiting import Visitor, message_beside
from tests.known import known

LIMIT = 40_000
CSV = b"p,y\n" + b"0.125,0\n0.875,1\n0.75,0\n0.25,1\n" * 10


@pytest.fixture
def url(redis: Redis, shared_api: SharedApi) -> str:
    return shared_api.url(max_body_bytes=LIMIT)


def _send(
    visitor: Visitor, content: bytes, name: str = "rows.csv", *, part: bool = True, **fields: str
) -> httpx.Response:
    return visitor.upload(content, name, part=part, **fields)


def _report_of(answer: httpx.Response) -> str:
    assert answer.status_code in (204, 303)
    return answer.headers.get("hx-redirect") or answer.headers["location"]


def test_a_file_becomes_a_batch_that_the_calls_know(visitor: Visitor, store: Store) -> None:
    path = _report_of(_send(visitor, CSV, "a\x1b[1m<b>.csv"))
    batch = visitor.get(path.replace("/ui/reports", "/batches")).json()
    assert (batch["n"], batch["scale"], batch["arrays"]) == (40, "probability", ["predictions", "labels"])
    upload = store.uploads.get(batch["id"])
    assert any("labels" in said for said in upload.said)
    assert "\x1b" not in known(upload.file)
    text = visitor.get(path).text
    assert "&lt;b&gt;.csv" in text
    assert "<b>.csv" not in text
    assert store.redis.pttl(store.keys.upload(batch["id"])) > 0


@pytest.mark.parametrize("part", [True, False])
def test_a_file_over_the_limit_is_refused_with_the_limit_named_next_to_it(visitor: Visitor, part: bool) -> None:
    refused = text_of(_send(visitor, b"p,y\n" + b"0.125,0\n" * LIMIT, part=part), 413)
    assert "at most 40,000 bytes" in refused
    assert ("<html" in refused) is not part
    assert '<p id="file-hint" class="error"' in refused


def test_choices_stay_beside_an_error(visitor: Visitor) -> None:
    refused = text_of(_send(visitor, CSV, labels="<nowhere>", groups="site", part=False), 422)
    assert 'id="groups" name="groups" value="site"' in refused
    assert '<select id="labels" name="labels" aria-describedby="labels-hint" aria-invalid="true"' in refused
    assert "<nowhere>" not in refused


def test_columns_of_features_are_stored_and_their_segments_are_shown(visitor: Visitor) -> None:
    random = np.random.default_rng(5)
    p, south, age = random.uniform(0.2, 0.5, 600), random.integers(0, 2, 600), random.integers(20, 60, 600)
    y = random.random(600) < p + 0.4 * south
    rows = zip(p.tolist(), y.astype(int), np.array(["north", "south"])[south], age, strict=True)
    text = "\n".join(["p,y,site,age", *(",".join(map(str, row)) for row in rows)]) + "\n"
    path = _report_of(_send(visitor, text.encode(), features="site, age"))
    batch = visitor.get(path.replace("/ui/reports", "/batches")).json()
    assert {"features/site", "features/age"} <= {*batch["arrays"]}
    section = visitor.get(path).text.partition('id="report-segments"')[2].partition("</section>")[0]
    assert "site = south" in section
    refused = _send(visitor, text.encode(), features="nowhere", part=False)
    assert 'id="features-hint" class="error"' in refused.text
    codes = b"p,y,v\n" + b"0.5,1,a\n0.25,0,2.0\n" * 20
    mixed = _send(visitor, codes, features="v", part=False)
    assert 'id="categorical-hint" class="error"' in mixed.text
    assert _report_of(_send(visitor, codes, features="v", categorical="v"))


def test_intervals_allow_for_clusters_of_a_column(visitor: Visitor) -> None:
    rows = "".join(f"{i % 40 / 40},{int(i % 40 > i % 13)},user {i % 10}\n" for i in range(200))
    batch = _report_of(_send(visitor, f"p,y,user\n{rows}".encode(), clusters="user")).removeprefix("/ui/reports/")
    assert visitor.post("/evaluate", json={"batch": batch, "measures": ["brier"]}).json()["clusters"] == 10
    refused = _send(visitor, CSV, clusters="nowhere", part=False)
    assert 'id="clusters-hint" class="error"' in refused.text


def test_groups_are_the_combinations_of_the_columns_that_are_typed(visitor: Visitor) -> None:
    rows = "".join(f"0.{i % 9 + 1},{i % 2},{'ab'[i // 2 % 2]},{i // 4 % 2}\n" for i in range(200))
    text = visitor.get(_report_of(_send(visitor, f"p,y,site,half\n{rows}".encode(), groups="site, half"))).text
    assert all(f">{site}, {half}<" in text for site in "ab" for half in "01")
    refused = text_of(_send(visitor, CSV, groups="site, nowhere", part=False), 422)
    assert "no column" in refused


def test_periods_of_a_column_of_times_are_compared(visitor: Visitor) -> None:
    rows = "".join(f"0.{i % 9 + 1},{i % 2},2026-0{i // 50 + 1}-03,{'ab'[i // 2 % 2]}\n" for i in range(200))
    content = f"p,y,when,site\n{rows}".encode()
    text = visitor.get(_report_of(_send(visitor, content, times="when"))).text
    assert all(f">2026-0{month}<" in text for month in range(1, 5))
    assert "groups: the periods of column &#39;when&#39;" in text
    for fields, message in (
        ({"times": "site"}, "Column &#39;site&#39; has no time in row 1"),
        ({"times": "nowhere"}, "no column"),
        ({"times": "when", "groups": "site"}, "not both"),
    ):
        refused = _send(visitor, content, part=False, **fields)
        assert message in message_beside(refused, "times")


def test_where_predictions_are_not_found_columns_are_suggested_for_the_labels_too(visitor: Visitor) -> None:
    refused = text_of(_send(visitor, b"first,second,came\n" + b"0.25,0.5,1\n0.5,0.125,0\n" * 20), 422)
    assert 'name="labels" value="" autocomplete="off" spellcheck="false" list="labels-known"' in refused
    assert re.findall(r'<option value="(\w+)"></option>', refused) == ["first", "second", "came"]
    assert "labels-known" not in visitor.get("/").text


def test_the_sample_is_offered_and_evaluated_by_its_button(visitor: Visitor) -> None:
    assert 'action="/ui/sample"' in visitor.get("/").text
    assert len(visitor.get("/assets/sample.csv").content) < 100_000
    path = _report_of(visitor.post("/ui/sample", data={"csrf_token": visitor.token("/")}))
    text = visitor.get(path).text
    assert "sample.csv" in text
    assert "calibration rejected" in text
    assert visitor.post("/ui/sample", data={"csrf_token": "guessed"}).status_code == 403


def test_the_front_page_offers_files_of_every_format(visitor: Visitor) -> None:
    accepted = known(re.search(r'name="file" required accept="([^"]*)"', visitor.get("/").text))
    suffixes = ".csv .tsv .txt .jsonl .npz .npy .parquet .arrow .feather .gz .bz2 .xz .zst .zip"
    assert set(suffixes.split()) <= set(accepted[1].split(","))


def test_the_front_page_says_which_columns_are_looked_for(visitor: Visitor) -> None:
    text = visitor.get("/").text
    assert "a column of predictions, such as <code>p</code>" in text
    assert "groundtruth" in text


def test_an_error_of_the_rows_is_shown_next_to_its_field(visitor: Visitor) -> None:
    rows = CSV.replace(b"0.125,0", b"0.125,7")
    refused = text_of(_send(visitor, rows), 422)
    assert 'id="labels-hint" class="error"' in refused or 'id="mapping-hint" class="error"' in refused


def test_a_class_that_is_not_a_number_is_reported_next_to_the_mapping(visitor: Visitor) -> None:
    refused = text_of(_send(visitor, CSV, mapping_text="0", mapping_class="first"), 422)
    assert "non-negative integer" in refused


def test_an_upload_of_another_origin_or_without_its_token_is_refused(visitor: Visitor) -> None:
    files = {"file": ("rows.csv", CSV)}
    for headers, fields in (({}, {}), ({}, {"csrf_token": "guessed"}), ({"Origin": "https://elsewhere"}, {})):
        assert visitor.post("/ui/upload", data=fields, files=files, headers=headers).status_code == 403
    assert visitor.get("/batches").json()["items"] == []


def test_a_body_that_is_not_a_form_gets_a_readable_error(visitor: Visitor) -> None:
    token = {"X-CSRF-Token": visitor.token("/")}
    assert visitor.post("/ui/upload", content=CSV, headers={**token, "Content-Type": "text/csv"}).status_code == 415
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    for broken in (b"--x\r\nContent-Disposition: nothing\r\n\r\n", b"nonsense", b""):
        refused = visitor.post("/ui/upload", content=broken, headers=token | kind)
        assert refused.status_code in (400, 422)
        assert "file-hint" in refused.text
    assert _send(visitor, b"", "").status_code == 422


def test_a_long_report_becomes_one_job(visitor: Visitor, store: Store) -> None:
    rows = {"predictions": [[0.25, 0.75], [0.5, 0.5]] * 60, "labels": [0, 1, 1] * 40}
    batch = visitor.post("/batches", json=rows).json()["id"]
    job = visitor.post("/evaluate", json={"batch": batch}, headers={"Prefer": "respond-async"}).json()["id"]
    store.uploads.remember_report(batch, job, [], ttl=60)
    for _ in range(2):
        assert _report_of(visitor.get(f"/ui/reports/{batch}")) == f"/ui/jobs/{job}"
    assert _report_of(visitor.get(f"/ui/reports/{batch}/report.html")) == f"/ui/jobs/{job}"
    assert visitor.get(f"/ui/reports/{batch}?job=job_0").status_code == 404
    other = visitor.post("/batches", json=rows).json()["id"]
    assert visitor.get(f"/ui/reports/{other}?job={job}").status_code == 404
    visitor.post(f"/jobs/{job}/cancel")
    assert visitor.get(f"/ui/reports/{batch}").status_code == 200  # a cancelled report is made again
    assert visitor.get(f"/ui/reports/{batch}?job={job}").headers["location"] == f"/ui/jobs/{job}"
    assert visitor.get("/ui/reports/batch_0").status_code == 404


@pytest.mark.parametrize("where", ["header", "field", "nowhere"])
def test_a_forged_upload_is_refused_before_its_file_has_come(visitor: Visitor, where: str) -> None:
    own = str(visitor.base_url).rstrip("/")
    headers = {"Origin": own, "Content-Type": "multipart/form-data; boundary=x", "Connection": "close"}
    field = b'--x\r\nContent-Disposition: form-data; name="csrf_token"\r\n\r\nguessed\r\n' if where == "field" else b""
    begin = field + b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\np,y\n'
    if where == "header":
        headers["X-CSRF-Token"], begin = "guessed", b"-"
    with begun(f"{own}/ui/upload", 9_000_000, begin, headers) as connection:
        assert connection.recv(12) == b"HTTP/1.1 403"


def test_a_truncated_form_is_reported_as_truncated(visitor: Visitor) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=x", "X-CSRF-Token": visitor.token("/")}
    whole = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n' + CSV + b"\r\n--x--\r\n"
    for cut in (0, 30, 90, len(whole) - 20, len(whole) - 6, len(whole) - 4):
        refused = text_of(visitor.post("/ui/upload", content=whole[:cut], headers=kind), 400)
        assert re.search("truncated|incomplete", refused)
    assert visitor.get("/batches").json()["items"] == []
    assert visitor.post("/ui/upload", content=whole, headers=kind).status_code == 303


@pytest.mark.slow
def test_a_small_file_that_unpacks_to_much_takes_one_of_few_places(redis: Redis, redis_url: str) -> None:
    packed = gzip.compress(b"p,y\n" + b"0.125,0\n0.875,1\n" * 200_000)
    assert len(packed) < 20_000
    short = b"p,y\n" + b".1,0\n.9,1\n" * 80_000  # less than 1 MiB of text, more of numbers
    with (
        serving(Settings(redis_url, max_heavy_requests=1, max_waiting_requests=0, store_timeout=600)) as url,
        Visitor(url) as visitor,
    ):
        assert _send(visitor, CSV).status_code == 204
        with one_place_taken(redis, url):
            for content in (packed, short):
                refused = _send(visitor, content)
                assert (refused.status_code, int(refused.headers["retry-after"]) >= 1) == (503, True)  # an estimate
                assert "store" not in refused.text.lower().replace("stored", "")
        for content in (packed, short):
            assert _send(visitor, content).status_code == 204


def test_a_mapping_to_one_class_is_reported_next_to_it(visitor: Visitor) -> None:
    texts = CSV.replace(b",0\n", b",ham\n").replace(b",1\n", b",spam\n")
    refused = visitor.upload(texts, mapping_text=["ham", "spam"], mapping_class=["0", "0"])
    assert (refused.status_code, "the same class" in refused.text) == (422, True)


@pytest.mark.parametrize(
    ("words", "classes"),
    [(("nein", "ja"), ["0", "1"]), (("non", "oui"), ["0", "1"]), (("ham", "spam"), ["", ""]), (("1", "2"), ["", ""])],
)
def test_the_positive_label_is_filled_in_only_for_a_known_pair(
    visitor: Visitor, words: tuple[str, str], classes: list[str]
) -> None:
    texts = re.sub(rb",([01])\n", lambda row: f",{words[int(row[1])]}\n".encode(), CSV)
    refused = _send(visitor, texts)
    offered = re.findall(
        r'name="mapping_text" value="(\w+)">\s*<input [^>]*name="mapping_class" value="(\d*)"', refused.text
    )
    assert dict(offered) == dict(zip(words, classes, strict=True))
    again = visitor.upload(texts, part=True, mapping_text=[*words], mapping_class=[of for _, of in offered])
    assert again.status_code == (204 if "" not in classes else 422)


def test_the_confidence_in_a_predicted_class_is_reported_and_fitted_as_confidence(visitor: Visitor) -> None:
    rows = b"0.4,1\n0.4,1\n0.4,0\n0.4,0\n0.75,0\n" * 20
    path = _report_of(_send(visitor, b"confidence,correct\n" + rows))
    report = visitor.get(f"{path}/report.json").json()
    assert report["reduction"] == "confidence"
    fitted = visitor.submit(f"{path}/fit", {"method": "platt"}, part=True)
    ref = (fitted.headers.get("hx-redirect") or fitted.headers["location"]).removeprefix("/ui/maps/")
    assert visitor.get(f"/maps/{ref}").json()["reduction"] == "confidence"


def test_every_call_of_a_stored_batch_has_the_reduction_that_its_file_implies(visitor: Visitor) -> None:
    rows = b"0.4,1\n0.4,1\n0.4,1\n0.4,0\n0.75,0\n" * 20
    ids = [
        _report_of(_send(visitor, header + rows)).removeprefix("/ui/reports/")
        for header in (b"confidence,correct\n", b"p,y\n")
    ]
    accuracies = {}
    for batch in ids:
        report = visitor.post("/evaluate", json={"batch": batch, "measures": ["accuracy"]}).json()
        accuracies[report["reduction"]] = round(report["measures"]["accuracy"]["value"], 6)
    assert accuracies == {"confidence": 0.6, "binary": 0.2}
    (confidence, binary) = ids
    stated = visitor.post("/evaluate", json={"batch": confidence, "measures": ["accuracy"], "reduction": "binary"})
    assert stated.json()["reduction"] == "binary"
    fitted = visitor.post("/maps", json={"batch": confidence, "method": "platt"}).json()
    assert fitted["reduction"] == "confidence"
    both = {"batches": [confidence, binary], "measures": ["accuracy"]}
    refused = body_of(visitor.post("/evaluate", json=both), 422)
    assert refused["errors"][0]["pointer"] == "/reduction"
    assert visitor.post("/evaluate", json={**both, "reduction": "binary"}).status_code == 200
    assert visitor.post("/diagrams", json={"batch": confidence, "diagram": "reliability"}).status_code == 200
    compared = visitor.post("/evaluate", json={"batch": confidence, "maps": [fitted["id"]], "measures": ["brier"]})
    assert compared.json()["reduction"] == "confidence"


def test_a_score_that_can_be_of_class_1_or_of_the_predicted_class_is_read_as_the_form_says(visitor: Visitor) -> None:
    content = b"y_true,y_pred,score\n1,1,0.9\n0,0,0.8\n0,0,0.7\n1,0,0.6\n"
    refused = text_of(_send(visitor, content), 422)
    assert '<select id="reduction" name="reduction" aria-describedby="reduction-hint" aria-invalid="true"' in refused
    for reduction, accuracy in (("binary", 0.5), ("confidence", 0.75)):
        batch = _report_of(_send(visitor, content, reduction=reduction)).removeprefix("/ui/reports/")
        report = visitor.post("/evaluate", json={"batch": batch, "measures": ["accuracy"]}).json()
        assert (report["reduction"], report["measures"]["accuracy"]["value"]) == (reduction, accuracy)


def test_the_confidence_of_several_columns_is_that_of_the_form(visitor: Visitor) -> None:
    content = b"y,p0,p1,p2\n" + b"0,0.5,0.25,0.25\n1,0.25,0.5,0.25\n2,0.5,0.25,0.25\n" * 5
    path = _report_of(_send(visitor, content, reduction="confidence"))
    assert visitor.get(f"{path}/report.json").json()["reduction"] == "confidence"
    assert message_beside(_send(visitor, content, reduction="binary"), "reduction")


def test_weights_are_used_only_if_their_field_names_them(visitor: Visitor) -> None:
    content = b"p,y,w\n" + b"0.125,0,1\n0.875,1,2\n0.75,0,3\n0.25,1,4\n" * 10
    path = _report_of(_send(visitor, content))
    assert visitor.get(path.replace("/ui/reports", "/batches")).json()["arrays"] == ["predictions", "labels"]
    assert "weights: none; column &#39;w&#39; is not used unless it is named" in visitor.get(path).text
    path = _report_of(_send(visitor, content, weights="w"))
    assert "weights" in visitor.get(path.replace("/ui/reports", "/batches")).json()["arrays"]


def test_a_decimal_comma_is_read_if_it_is_chosen_and_offered_if_it_is_not(visitor: Visitor) -> None:
    text = CSV.replace(b",", b";").replace(b"0.", b"0,")
    assert message_beside(_send(visitor, text, predictions="p"), "decimal")
    path = _report_of(_send(visitor, text, predictions="p", decimal=","))
    assert visitor.get(path.replace("/ui/reports", "/batches")).json()["n"] == 40


@pytest.mark.parametrize("fields", [{"class_names": "ham, spam"}, {"pos_label": "spam"}])
def test_the_names_of_the_classes_are_kept_for_the_maps_of_the_batch(visitor: Visitor, fields: dict[str, str]) -> None:
    texts = CSV.replace(b",0\n", b",ham\n").replace(b",1\n", b",spam\n")
    assert _send(visitor, texts).status_code == 422  # without a name, nothing says which is the event
    path = _report_of(_send(visitor, texts, part=True, mapping_text="ham", mapping_class="1", **fields))
    batch = path.removeprefix("/ui/reports/")
    assert visitor.get(f"/batches/{batch}").json()["class_names"] == ["ham", "spam"]
    fitted = visitor.post("/maps", json={"batch": batch, "method": "platt"}).json()
    assert fitted["class_names"] == ["ham", "spam"]


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ({"class_names": "ham"}, "class_names", "different names"),
        ({"class_names": "ham,ham"}, "class_names", "different names"),
        ({"class_names": "ham,spam,eggs"}, "class_names", "but there are 3 class names"),
        ({"class_names": "ham,eggs"}, "class_names", "is not one of the class names"),
        ({"class_names": "ham,spam", "pos_label": "spam"}, "class_names", "not both"),
        ({"pos_label": "<b>"}, "pos_label", "he positive label must be one of two labels"),
    ],
)
def test_wrong_names_of_classes_are_reported_next_to_their_field(
    visitor: Visitor, fields: dict[str, str], where: str, message: str
) -> None:
    texts = CSV.replace(b",0\n", b",ham\n").replace(b",1\n", b",spam\n")
    refused = _send(visitor, texts, part=False, **fields)
    assert message_beside(refused, where)
    assert message in refused.text
    assert "<b>" not in refused.text


def test_names_too_long_for_a_batch_are_shown_in_the_report_alone(visitor: Visitor) -> None:
    path = _report_of(_send(visitor, CSV, class_names=f"ham,{'x' * 300}"))
    assert visitor.get(path).status_code == 200
    assert visitor.get(path.replace("/ui/reports", "/batches")).json()["class_names"] is None


def test_two_orders_of_the_columns_are_a_choice_beside_the_field(visitor: Visitor) -> None:
    content = b"label,prob_dog,prob_cat\n" + b"1,0.75,0.25\n0,0.25,0.75\n1,0.625,0.375\n" * 10
    refused = _send(visitor, content)
    assert message_beside(refused, "predictions")
    orders = re.findall(r'<input type="radio" name="predictions" value="([^"]+)"', refused.text)
    assert orders == ["prob_cat,prob_dog", "prob_dog,prob_cat"]
    for order in orders:
        assert "/ui/reports/" in _report_of(_send(visitor, content, predictions=order))


@pytest.mark.parametrize("reduction", ["binary", "confidence"])
def test_a_column_that_may_be_a_confidence_is_read_as_chosen(visitor: Visitor, store: Store, reduction: str) -> None:
    content = b"hit,confidence\n" + b"0,0.375\n1,0.875\n1,0.75\n0,0.25\n" * 10
    refused = text_of(_send(visitor, content), 422)
    assert "choose a reduction" in refused
    assert 'id="reduction" name="reduction" aria-describedby="reduction-hint" aria-invalid="true"' in refused
    path = _report_of(_send(visitor, content, reduction=reduction))
    assert store.uploads.get(path.rpartition("/")[2]).reduction == reduction
    assert f'"reduction": "{reduction}"' in visitor.get(path).text.replace("&#34;", '"')


@pytest.mark.parametrize("name", ["scale", "weights_kind", "reduction", "decimal", "prediction_kind"])
def test_a_choice_that_the_form_does_not_offer_is_refused_without_its_text(visitor: Visitor, name: str) -> None:
    field: Any = {name: "lo<g>its"}
    answer = text_of(_send(visitor, b"p,y\n0.25,0\n0.75,1\n" * 10, **field), 422)
    assert "must be one of" in answer
    assert "lo<g>its" not in answer


@pytest.mark.slow
def test_the_report_of_a_file_with_groups_offers_to_test_them_as_rating_grades(visitor: Visitor) -> None:
    rows = "".join(f"{0.05 if i % 4 else 0.2},{int(i % 10 == 0)},{'C' if i % 4 else 'D'}\n" for i in range(400))
    path = _report_of(_send(visitor, f"pd,default,rating\n{rows}".encode(), groups="rating", labels="default"))
    plain = visitor.get(path).text
    assert f'<a href="{path}?grades=yes">Test the groups as rating grades</a>' in plain
    assert "report-grades" not in plain
    tested = visitor.get(f"{path}?grades=yes").text
    assert 'id="report-grades"' in tested
    assert "Test the groups as rating grades" not in tested
    assert 'id="report-grades"' in visitor.get(f"{path}/report.html?grades=yes").text
    batch = path.removeprefix("/ui/reports/")
    expected = visitor.post("/grades", json={"batch": batch}).json()
    assert visitor.get(f"{path}/report.json?grades=yes").json()["grades"] == expected
    assert visitor.get(f"{path}?grades=no").status_code == 422
    fitted = visitor.post("/maps", json={"batch": batch, "method": "platt"}).json()["id"]
    assert "rating grades" not in visitor.get(f"{path}?map={fitted}").text
    refused = text_of(visitor.get(f"{path}?map={fitted}&grades=yes"), 422)
    assert "leave out map" in refused


def test_grades_are_tested_when_a_report_becomes_a_job(visitor: Visitor, store: Store) -> None:
    rows = {"predictions": [0.05, 0.2] * 60, "labels": [0, 1, 0, 0] * 30, "groups": ["C", "D"] * 60}
    batch = visitor.post("/batches", json=rows).json()["id"]
    job = visitor.post("/evaluate", json={"batch": batch}, headers={"Prefer": "respond-async"}).json()["id"]
    store.uploads.remember_report(batch, job, [], ttl=60)
    page = _report_of(visitor.get(f"/ui/reports/{batch}?grades=yes"))
    assert page == f"/ui/jobs/{job}?grades=yes"
    text = visitor.get(page).text
    assert f'sse-connect="/ui/jobs/{job}/events?grades=yes"' in text
    assert f'href="/ui/jobs/{job}?grades=yes">Refresh' in text
    done = store.jobs.get(job).model_copy(update={"status": "succeeded"})
    assert JobView(done, grades="yes").report_path == f"/ui/reports/{batch}?job={job}&grades=yes"
    assert "grades" not in visitor.get(f"/ui/jobs/{job}?grades=no").text


def test_a_file_without_groups_has_no_rating_grades(visitor: Visitor) -> None:
    path = _report_of(_send(visitor, CSV))
    assert "rating grades" not in visitor.get(path).text
    assert visitor.get(f"{path}?grades=yes").status_code == 422
