"""The pages of the registry and of reports with maps: what they show, what they change, and to whom."""

from __future__ import annotations

import re

import httpx
import pytest
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from service.settings import Settings
from tests.integration.conftest import serving
from tests.integration.responses import body_of, text_of
from tests.integration.visiting import ROWS, Visitor, hidden
from tests.known import known

HOSTILE = "<script>alert(1)</script>\"'&{{ 7*7 }}"
OTHER_ROWS = {"predictions": [0.2] * 20 + [0.8] * 20, "labels": [0, 0, 0, 1] * 5 + [1, 1, 1, 0] * 5}


@pytest.fixture
def spam(visitor: Visitor) -> list[str]:
    """The ids of two versions of one name."""
    return [_fitted(visitor, method) for method in ("platt", "isotonic")]


def _fitted(http: httpx.Client, method: str, **options: object) -> str:
    return str(body_of(http.post("/maps", json=ROWS | {"method": method, "name": "spam"} | options), 201)["id"])


def _champion(visitor: Visitor) -> int:
    return int(visitor.get("/maps/spam/aliases/champion").json()["version"])


def _promotion(text: str, version: int) -> dict[str, str]:
    """The fields of a version's button."""
    return {name: hidden(text, f"promote-{version}", name) for name in ("alias", "version", "seen", "csrf_token")}


def test_reports_are_listed_by_the_name_of_the_file(visitor: Visitor, spam: list[str]) -> None:
    visitor.post("/batches", json=ROWS)
    visitor.post("/batches", json={"predictions": ROWS["predictions"]})  # without labels
    visitor.post("/batches", json={"prediction_kind": "regression", "mean": [1.0], "variance": [1], "observed": [2.0]})
    visitor.upload(b"p,y\n" + b"0.125,0\n0.875,1\n" * 10, "march <b>.csv")
    text = visitor.get("/ui/reports").text
    assert text.count('href="/ui/reports/batch_') == 3
    assert text.count("<bdi>march &lt;b&gt;.csv</bdi>") == 1
    assert "20 rows, binary, 50 % positive" in text
    assert "1 row, forecasts: normal" in text


def test_the_list_of_reports_has_pages_that_keep_the_chosen_maps(visitor: Visitor) -> None:
    for _ in range(51):
        visitor.post("/batches", json=OTHER_ROWS)
    first = visitor.get("/ui/reports?maps=spam:1&maps=spam:2").text
    assert first.count('href="/ui/reports/batch_') == 50
    assert first.count('?maps=spam%3A1&amp;maps=spam%3A2">') == 50
    (older,) = re.findall(r'<a href="([^"]+)">Older', first)
    second = visitor.get(older.replace("&amp;", "&")).text
    assert second.count('href="/ui/reports/batch_') == 1
    assert second.count('?maps=spam%3A1&amp;maps=spam%3A2">') == 2  # the batch, and the way back
    assert visitor.get("/ui/reports?cursor=nonsense").status_code == 422


def test_the_list_shows_every_map_and_filters_it_page_by_page(visitor: Visitor, spam: list[str]) -> None:
    for _ in range(20):
        visitor.post("/maps", json=ROWS | {"method": "beta", "tags": {"stage": "live"}})
    first = visitor.get("/ui/maps").text
    assert (first.count("<tr "), "version 2" in first) == (21, False)
    (following,) = re.findall(r'<a href="([^"]+)">Older maps', first)
    second = visitor.get(following.replace("&amp;", "&")).text
    assert second.count("<tr ") == 3
    assert "version 1" in second
    assert "version 2" in second
    assert visitor.get("/ui/maps?method=platt&name=spam&alias=&tag=").text.count("<tr ") == 2
    assert visitor.get("/ui/maps?tag=stage%3Dlive").text.count("<tr ") == 21
    assert "No maps match these filters" in visitor.get("/ui/maps?name=nobody").text
    refused = visitor.get("/ui/maps?cursor=nonsense")
    assert (refused.status_code, "cursor" in refused.text) == (422, True)


def test_pages_name_the_classes_and_what_each_score_is_of(visitor: Visitor) -> None:
    vectors = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.6, 0.3, 0.1]] * 10
    rows = {"predictions": vectors, "labels": [0, 1, 2, 1] * 10, "class_names": ["bird", "cat", "<b>"]}
    fitted = visitor.post("/maps", json=rows | {"method": "temperature", "name": "pets"}).raise_for_status().json()
    two = visitor.post("/maps", json=ROWS | {"method": "platt", "class_names": ["ham", "spam"]}).raise_for_status()
    pages = [visitor.get(f"/ui/maps{path}").text for path in ("", "/pets", f"/{fitted['id']}")]
    for text in pages:
        assert "bird, cat, &lt;b&gt;" in text
        assert "Plain ECE" in text
        assert "the confidence" in text
        assert re.search(r"(?<!lain )\bECE\b", text.replace("the ECE that of", "")) is None
    assert all("ham, spam" in text for text in (pages[0], visitor.get(f"/ui/maps/{two.json()['id']}").text))
    for map_id in (fitted["id"], two.json()["id"]):
        visitor.delete(f"/maps/{map_id}")


@pytest.mark.parametrize("part", [True, False])
def test_a_fit_of_another_shape_is_refused_until_the_box_is_checked(visitor: Visitor, part: bool) -> None:
    vectors = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.6, 0.3, 0.1]] * 10
    rows = {"predictions": vectors, "labels": [0, 1, 2, 1] * 10}
    visitor.post("/maps", json=rows | {"method": "temperature", "name": "shaped"}).raise_for_status()
    report = f"/ui/reports/{visitor.post('/batches', json=ROWS).json()['id']}"
    title = "Allow another output shape than earlier versions"
    assert f'name="allow_shape_change" value="yes">{title}</label>' in visitor.get(report).text
    fields = {"method": "platt", "name": "shaped"}
    refused = text_of(visitor.submit(f"{report}/fit", fields, part=part), 409)
    assert title in refused
    assert "allow_shape_change" not in refused
    fitted = visitor.submit(f"{report}/fit", fields | {"allow_shape_change": "yes"}, part=part)
    assert (fitted.headers.get("hx-redirect") or fitted.headers["location"]).startswith("/ui/maps/")


def test_versions_stand_side_by_side_each_with_its_picture_and_document(visitor: Visitor, spam: list[str]) -> None:
    text = visitor.get("/ui/maps/spam").text
    assert [text.index(f"/ui/maps/{map_id}") for map_id in reversed(spam)] == sorted(
        text.index(f"/ui/maps/{map_id}") for map_id in spam
    )
    for map_id in spam:
        picture = known(re.search(rf'src="(/maps/{map_id}/diagram.svg[^"]*)" width="\d+" height="\d+"', text))
        assert visitor.get(picture[1]).headers["content-type"].startswith("image/svg+xml")
        assert f'href="/maps/{map_id}/document" download' in text
    assert visitor.get("/ui/maps/nobody").status_code == 404


def test_one_button_promotes_a_version_and_shows_the_change(visitor: Visitor, spam: list[str]) -> None:
    sent = _promotion(visitor.get("/ui/maps/spam").text, 1)
    first = visitor.post("/ui/maps/spam/aliases", data=sent, headers={"HX-Request": "true"})
    assert "Created champion, pointing at version 1 of spam." in first.text
    second = visitor.post("/ui/maps/spam/aliases", data=_promotion(first.text, 2), headers={"HX-Request": "true"})
    assert "champion of spam now points at version 2 (before: version 1)." in second.text
    assert 'id="versions" hx-swap-oob="true"' in second.text
    assert _champion(visitor) == 2
    without_scripts = visitor.post("/ui/maps/spam/aliases", data=_promotion(second.text, 1))
    assert (without_scripts.status_code, without_scripts.headers["location"]) == (303, "/ui/maps/spam")
    assert _champion(visitor) == 1


@pytest.mark.parametrize("part", [{}, {"HX-Request": "true"}])
def test_concurrent_moves_of_an_alias_do_not_overwrite_each_other(
    visitor: Visitor, spam: list[str], part: dict[str, str]
) -> None:
    _fitted(visitor, "beta")
    seen_by_both = visitor.get("/ui/maps/spam").text
    assert visitor.post("/ui/maps/spam/aliases", data=_promotion(seen_by_both, 2)).status_code == 303
    late = text_of(visitor.post("/ui/maps/spam/aliases", data=_promotion(seen_by_both, 3), headers=part), 412)
    assert "Someone else has moved the alias since this page was loaded. Nothing was changed" in late
    assert _champion(visitor) == 2
    again = visitor.post("/ui/maps/spam/aliases", data=_promotion(late, 3))
    assert (again.status_code, _champion(visitor)) == (303, 3)


def test_an_alias_is_added_moved_and_removed_and_an_invalid_one_is_explained(visitor: Visitor, spam: list[str]) -> None:
    path = "/ui/maps/spam/aliases"
    assert visitor.submit(path, {"alias": "shadow", "version": "1", "seen": ""}).status_code == 303
    for fields, status in (
        ({"alias": "shadow", "version": "2", "seen": ""}, 412),
        ({"alias": "two words", "version": "1", "seen": ""}, 422),
        ({"alias": "x", "version": "first", "seen": ""}, 422),
        ({"alias": "x", "version": "7", "seen": ""}, 422),
    ):
        refused = visitor.submit(path, fields)
        assert (refused.status_code, "Version 2" in refused.text) == (status, True), fields
    seen = hidden(visitor.get("/ui/maps/spam").text, "move-shadow", "seen")
    assert visitor.submit(f"{path}/shadow/delete", {"seen": "0" * 32}).status_code == 412
    assert visitor.submit(f"{path}/shadow/delete", {"seen": seen}).status_code == 303
    assert visitor.get("/maps/spam/aliases").json() == {"items": [], "next": None}


def test_tags_and_description_are_changed_and_nothing_written_is_lost(visitor: Visitor, spam: list[str]) -> None:
    path = f"/ui/maps/{spam[0]}"
    seen = re.findall(r'name="seen" value="([0-9a-f]{32})"', visitor.get(path).text)[0]
    wrong = visitor.submit(f"{path}/about", {"seen": seen, "tags": "a b=1", "description": "mine"})
    assert (wrong.status_code, "a b=1" in wrong.text, "mine" in wrong.text) == (422, True, True)
    right = {"seen": seen, "tags": "stage=live\n\nticket = 7", "description": "mine"}
    assert visitor.submit(f"{path}/about", right).status_code == 303
    record = visitor.get(f"/maps/{spam[0]}").json()
    assert (record["tags"], record["description"]) == ({"stage": "live", "ticket": "7"}, "mine")
    late = visitor.submit(f"{path}/about", right | {"tags": "", "description": "theirs"})
    assert (late.status_code, "theirs" in late.text) == (412, True)
    seen = re.findall(r'name="seen" value="([0-9a-f]{32})"', visitor.get(path).text)[0]
    visitor.submit(f"{path}/about", {"seen": seen, "tags": "stage=live", "description": ""})
    record = visitor.get(f"/maps/{spam[0]}").json()
    assert (record["tags"], record["description"]) == ({"stage": "live"}, None)


def test_a_version_at_which_an_alias_points_is_not_deleted(visitor: Visitor, spam: list[str]) -> None:
    visitor.put("/maps/spam/aliases/champion", json={"version": 1})
    refused = visitor.submit(f"/ui/maps/{spam[0]}/delete", {})
    assert (refused.status_code, "alias" in refused.text) == (409, True)
    assert visitor.submit(f"/ui/maps/{spam[1]}/delete", {}).headers["location"] == "/ui/maps"
    assert [visitor.get(f"/maps/{map_id}").status_code for map_id in spam] == [200, 404]


def test_tags_and_descriptions_are_escaped(visitor: Visitor) -> None:
    map_id = _fitted(visitor, "platt", description=HOSTILE, tags={"note": HOSTILE})
    visitor.post("/batches", json=OTHER_ROWS)
    for path in (
        f"/ui/maps/{map_id}",
        "/ui/maps/spam",
        "/ui/maps",
        "/ui/reports?maps=%3Cb%3E",
        f"/ui/maps?tag={HOSTILE}",
    ):
        answer = text_of(visitor.get(path))
        assert "<script>alert" not in answer
        assert "<b>" not in answer
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in visitor.get(f"/ui/maps/{map_id}").text
    assert "{{ 7*7 }}" in visitor.get(f"/ui/maps/{map_id}").text
    assert "<script>" not in visitor.get(f"/ui/maps/{HOSTILE}").text


def test_a_report_of_several_maps_compares_them_with_intervals_and_p_values(visitor: Visitor, spam: list[str]) -> None:
    assert "There is no stored batch with labels" in visitor.get("/ui/reports").text
    batch = visitor.post("/batches", json=OTHER_ROWS).json()["id"]
    versions = visitor.get("/ui/maps/spam").text
    (chosen,) = re.findall(r'<a href="([^"]+)">Compare the versions on one batch', versions)
    (path,) = re.findall(r'<a href="(/ui/reports/batch_[^"]+)"', visitor.get(chosen.replace("&amp;", "&")).text)
    assert path == f"/ui/reports/{batch}?maps=spam%3A2&amp;maps=spam%3A1"
    text = visitor.get(path.replace("&amp;", "&")).text
    assert [f'value="spam:{k}" checked' in text for k in (1, 2)] == [True, True]
    report = visitor.get(path.replace("&amp;", "&").replace("?", "/report.json?")).json()
    names = [contestant["name"] for contestant in report["comparison"]["contestants"]]
    assert names == ["uncalibrated", "spam:2", "spam:1"]
    table = text[text.index('id="report-contest-table"') :]
    assert re.findall(r'<th role="rowheader" scope="row"><bdi>([^<]+)', table)[:3] == names
    pairs = [pair for score in report["comparison"]["measures"].values() for pair in score["pairs"]]
    assert len(re.findall(r"<bdi>[^<]+ minus [^<]+</bdi>", table)) == len(pairs) >= 9
    assert re.findall(rf'href="/ui/reports/{batch}\?map=([^"]+)"', text) == ["spam%3A2", "spam%3A1"]
    standalone = visitor.get(path.replace("&amp;", "&").replace("?", "/report.html?"))
    assert ('id="report-contest-table"' in standalone.text, "<script" in standalone.text) == (True, False)


def test_a_report_is_before_and_after_one_map_or_compares_it_with_the_predictions(
    visitor: Visitor, spam: list[str]
) -> None:
    report = f"/ui/reports/{visitor.post('/batches', json=OTHER_ROWS).json()['id']}"
    for query, is_comparison in ((f"map={spam[0]}", False), (f"maps={spam[0]}", True)):
        text = visitor.get(f"{report}?{query}").text
        assert ("After the map" in text, 'id="report-contest-table"' in text) == (not is_comparison, is_comparison)
        assert ('value="spam:1" checked' in text, 'value="spam:2" checked' in text) == (True, False)
    refused = visitor.get(f"{report}?map=spam:1&maps=spam:2")
    assert (refused.status_code, "cannot be combined with map" in refused.text) == (422, True)
    repeated = visitor.get(f"{report}?maps=spam:1&maps=spam:1")
    assert (repeated.status_code, "The map spam:1: repeats an earlier map" in repeated.text) == (422, True)
    assert visitor.get(f"{report}?maps=spam:1&maps=spam:9").status_code == 404


def test_a_long_comparison_becomes_a_job_that_is_found_again(visitor: Visitor, spam: list[str]) -> None:
    batch = visitor.post("/batches", json=OTHER_ROWS).json()["id"]
    path = f"/ui/reports/{batch}?maps=spam:1&maps=spam:2"
    answer = visitor.get(path, headers={"Prefer": "respond-async"})
    assert answer.status_code == 303
    job = answer.headers["location"].removeprefix("/ui/jobs/")
    assert visitor.get(f"/jobs/{job}").json()["status"] == "queued"
    assert visitor.get(path).headers["location"] == f"/ui/jobs/{job}"
    single = visitor.get(f"/ui/reports/{batch}?maps=spam:2", headers={"Prefer": "respond-async"})
    assert single.headers["location"] not in ("", f"/ui/jobs/{job}")
    assert visitor.get(f"/ui/reports/{batch}?map=spam:2").status_code == 200  # another report of the same map
    # A job that has not ended is kept, and the page offers only to cancel it.
    assert visitor.submit(f"/ui/jobs/{job}/delete", {}).headers["location"] == f"/ui/jobs/{job}"
    assert "/delete" not in visitor.get(f"/ui/jobs/{job}").text
    visitor.submit(f"/ui/jobs/{job}/cancel", {})
    assert f"/ui/jobs/{job}/delete" in visitor.get(f"/ui/jobs/{job}").text
    assert visitor.post(f"/ui/jobs/{job}/delete", data={"csrf_token": "x"}).status_code == 403
    assert visitor.submit(f"/ui/jobs/{job}/delete", {}).headers["location"] == "/ui/jobs"
    assert visitor.get(f"/jobs/{job}").status_code == 404


def test_two_tenants_see_nothing_of_each_other_on_any_page(redis: Redis, redis_url: str) -> None:
    keys = [ApiKeyStore(redis).create(tenant, tenant=tenant, scope="write").text for tenant in ("owner", "next")]
    with serving(Settings(redis_url)) as url, Visitor(url) as owner, Visitor(url) as neighbour:
        for visitor, key in zip((owner, neighbour), keys, strict=True):
            assert visitor.sign_in(key).status_code == 303
        owner.headers["x-csrf-token"] = owner.token()
        map_id = _fitted(owner, "platt", description="between us")
        batch = owner.post("/batches", json=OTHER_ROWS).json()["id"]
        owner.put("/maps/spam/aliases/champion", json={"version": 1})
        secrets = {map_id, batch, "spam", "between us", "champion"}
        for path in ("/", "/ui/maps", "/ui/reports", "/ui/jobs"):
            text = neighbour.get(path).text
            assert not [secret for secret in secrets if secret in text], path
        for anothers, unknown in (
            (f"/ui/maps/{map_id}", "/ui/maps/map_" + "0" * 30),
            ("/ui/maps/spam", "/ui/maps/nobody"),
            ("/ui/maps/spam:1", "/ui/maps/nobody:1"),
            ("/ui/maps/spam@champion", "/ui/maps/nobody@champion"),
            (f"/ui/reports/{batch}?map={map_id}", "/ui/reports/batch_0?map=map_0"),
        ):
            assert owner.get(anothers).status_code == 200
            answers = [neighbour.get(path) for path in (anothers, unknown)]
            assert [answer.status_code for answer in answers] == [404, 404]
            assert (
                len({_but_for(answer.text, path) for answer, path in zip(answers, (anothers, unknown), strict=True)})
                == 1
            )
        for path in (f"/ui/maps/{map_id}/delete", f"/ui/maps/{map_id}/about", "/ui/maps/spam/aliases/champion/delete"):
            assert neighbour.submit(path, {"seen": "0" * 32}).status_code == 404
        moved = neighbour.submit("/ui/maps/spam/aliases", {"alias": "champion", "version": "1", "seen": ""})
        assert moved.status_code == 404
        neighbour.headers["x-csrf-token"] = neighbour.token()
        own = neighbour.post("/batches", json=OTHER_ROWS).json()["id"]
        assert neighbour.get(f"/ui/reports/{own}?map={map_id}").status_code == 404
        assert owner.get("/maps/spam@champion").json()["description"] == "between us"


def _but_for(text: str, path: str) -> str:
    """A page without the path at which it stands, which the visitor named."""
    return text.replace(path.partition("?")[0], "")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["platt", "beta", "temperature"])
def test_the_page_fits_what_the_report_compared(visitor: Visitor, method: str) -> None:
    rows = {"predictions": [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.6, 0.4]] * 25, "labels": [0, 1, 0, 1] * 25}
    report = f"/ui/reports/{visitor.post('/batches', json=rows).json()['id']}"
    assert 'name="reduction"' not in visitor.get(report).text
    answer = visitor.submit(f"{report}/fit", {"method": method})
    fitted = visitor.get(answer.headers["location"].replace("/ui", "")).json()
    assert fitted["reduction"] == ("canonical" if method == "temperature" else "classwise")


def test_the_recommended_map_is_listed_first_with_the_event_of_its_report(visitor: Visitor) -> None:
    rows = {"predictions": [0.05, 0.95, 0.9, 0.1] * 500, "labels": [0, 1, 0, 1] * 500}
    report = f"/ui/reports/{visitor.post('/batches', json=rows).json()['id']}"
    text = visitor.get(report).text
    first = known(re.search(r'<select id="method" name="method">\s*<option value="([^"]*)" selected>([^:]*)', text))
    assert first[2] == f"{first[1]} (recommended)"
    answer = visitor.submit(f"{report}/fit", {"method": first[1], "reduction": hidden(text, "method", "reduction")})
    assert visitor.get(answer.headers["location"].replace("/ui", "")).json()["reduction"] == "binary"


def test_a_map_that_does_not_fit_the_batch_of_a_comparison_is_named(visitor: Visitor, spam: list[str]) -> None:
    vectors = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.6, 0.3, 0.1]] * 10
    rows = {"predictions": vectors, "labels": [0, 1, 2, 1] * 10}
    assert visitor.post("/maps", json=rows | {"method": "temperature", "name": "pets"}).status_code == 201
    batch = visitor.post("/batches", json=rows).json()["id"]
    refused = text_of(visitor.get(f"/ui/reports/{batch}?maps=pets:1&maps={spam[0]}"), 422)
    assert f"The map {spam[0]}: predictions must have shape (n,)" in refused
