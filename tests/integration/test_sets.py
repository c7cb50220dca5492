"""Prediction sets over HTTP, with the client, the command and a host, which answer as the library."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import calibrant
from backend.held_map import HeldMap
from calibrant.client import Calibrant, ProblemResponse
from calibrant.core.errors import CalibrationError, UnusableRows
from service.hosts.app import HostApp, HostProcess
from service.settings import ScoringSettings
from service.stack import Stack
from tests.body_formats import ARROW, CSV, JSON, NPZ, csv_of
from tests.commands import invoked, succeeded
from tests.integration.hosting import post
from tests.integration.responses import body_of, problem_of, result_of, text_of
from tests.packed import arrow, npz

RANDOM = np.random.default_rng(54)
PROBS = RANDOM.dirichlet(np.ones(3), 300)
LABELS = np.array([RANDOM.choice(3, p=row) for row in PROBS])
GROUPS = np.array(["north", "south"])[np.arange(300) % 2]
NAMES = ["ant", "bee", "cat"]
ROWS = {"predictions": PROBS.tolist(), "labels": LABELS.tolist(), "class_names": NAMES}
NEW = PROBS[:7]


@pytest.fixture(scope="module")
def stored(service: Stack) -> dict[str, str]:
    """Ids of set maps by name."""
    fits: dict[str, dict[str, Any]] = {
        "lac": ROWS | {"method": "lac", "options": {"alpha": 0.2}},
        "random": ROWS | {"method": "aps", "options": {"randomised": True}},
        "group": ROWS | {"method": "lac", "options": {"conditional": "group"}, "groups": GROUPS.tolist()},
    }
    with httpx.Client(base_url=service.url, timeout=600) as http:
        return {name: body_of(http.post("/maps", json=fit), 201)["id"] for name, fit in fits.items()}


def test_a_map_is_that_of_the_library(http: httpx.Client, stored: dict[str, str]) -> None:
    local = calibrant.fit_sets(PROBS, LABELS, alpha=0.2, class_names=NAMES)
    record = body_of(http.get(f"/maps/{stored['lac']}"))
    assert calibrant.load_sets(record["document"]) == local
    assert (record["reduction"], record["n"], record["n_classes"], record["class_names"]) == ("sets", 300, 3, NAMES)
    answer = body_of(http.post("/calibrate", json={"map": stored["lac"], "predictions": NEW.tolist()}))
    expected = {"map": stored["lac"], "version": None, "alpha": 0.2, "sets": local.apply(NEW).to_lists()}
    assert answer == expected
    methods = body_of(http.get("/methods", params={"output": "sets"}))["items"]
    assert [method["name"] for method in methods] == [*calibrant.SET_METHODS]
    wrong = http.get("/methods", params={"output": "sets", "prediction_kind": "regression"})
    assert problem_of(wrong) == (422, "invalid-field", "?output")


def test_binary_formats_have_the_members_and_the_classes(http: httpx.Client, stored: dict[str, str]) -> None:
    members = calibrant.fit_sets(PROBS, LABELS, alpha=0.2).apply(NEW).members
    query, content = {"map": stored["lac"]}, npz(predictions=NEW)
    headers = {"content-type": "application/x-npz", "accept": "application/x-npz"}
    with np.load(io.BytesIO(http.post("/calibrate", params=query, content=content, headers=headers).content)) as arrays:
        assert np.array_equal(arrays["members"], members)
        assert arrays["classes"].tolist() == NAMES
        assert arrays["alpha"] == 0.2
    headers["accept"] = "application/vnd.apache.arrow.stream"
    answer = http.post("/calibrate", params=query, content=content, headers=headers)
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table["members"].to_pylist() == members.tolist()
    assert json.loads(table.schema.metadata[b"classes"]) == NAMES


def test_long_answers_have_every_row(http: httpx.Client, stored: dict[str, str]) -> None:
    many = np.tile(PROBS, (200, 1))
    answer = http.post(
        "/calibrate",
        params={"map": stored["lac"]},
        content=npz(predictions=many),
        headers={"content-type": "application/x-npz"},
    )
    expected = calibrant.fit_sets(PROBS, LABELS, alpha=0.2, class_names=NAMES).apply(PROBS).to_lists() * 200
    assert body_of(answer)["sets"] == expected


def test_the_client_gives_the_sets_of_the_library(client: Calibrant, stored: dict[str, str]) -> None:
    fitted = client.fit("raps", predictions=PROBS, labels=LABELS, options={"penalty": 0.1}, name="sets-of-client")
    local = calibrant.fit_sets(PROBS, LABELS, method="raps", penalty=0.1)
    sets, map_id, version = client.calibrate_sets("sets-of-client", NEW)
    assert (map_id, version) == (fitted.id, 1)
    assert np.array_equal(sets.members, local.apply(NEW).members)
    assert sets.classes == (0, 1, 2)
    by_group = calibrant.fit_sets(PROBS, LABELS, conditional="group", groups=GROUPS, class_names=NAMES)
    answer = client.calibrate_sets(stored["group"], NEW, groups=GROUPS[:7])
    assert answer.sets.to_lists() == by_group.apply(NEW, groups=GROUPS[:7]).to_lists()
    random = calibrant.fit_sets(PROBS, LABELS, method="aps", randomised=True)
    assert np.array_equal(
        client.calibrate_sets(stored["random"], NEW, seed=3).sets.members, random.apply(NEW, seed=3).members
    )
    imported = client.import_map(local, name="sets-of-client")
    assert (imported.version, imported.imported, imported.reduction) == (2, True, "sets")
    with pytest.raises(ProblemResponse, match="shape"):
        client.fit("platt", predictions=PROBS[:, 0], labels=LABELS == 0, name="sets-of-client")
    assert [method.name for method in client.set_methods()] == [*calibrant.SET_METHODS]


def test_stored_batches_are_fitted_and_calibrated_with_their_groups(client: Calibrant, stored: dict[str, str]) -> None:
    batch = client.upload(PROBS, LABELS, groups=GROUPS, class_names=NAMES)
    fitted = client.fit("lac", batch=batch.id, options={"conditional": "group"})
    local = calibrant.fit_sets(PROBS, LABELS, conditional="group", groups=GROUPS, class_names=NAMES)
    assert calibrant.load_sets(fitted.document) == local
    plain = client.fit("lac", batch=batch.id)  # the groups of the batch have another purpose
    assert calibrant.load_sets(plain.document) == calibrant.fit_sets(PROBS, LABELS, class_names=NAMES)


def test_a_fit_as_a_job_gives_the_same_map(http: httpx.Client, client: Calibrant) -> None:
    body = ROWS | {"method": "lac", "options": {"conditional": "group"}, "groups": GROUPS.tolist()}
    queued = http.post("/maps", json=body, headers={"prefer": "respond-async"})
    record = client.map(result_of(client, queued)["map"])
    local = calibrant.fit_sets(PROBS, LABELS, conditional="group", groups=GROUPS, class_names=NAMES)
    assert calibrant.load_sets(record.document) == local


def test_an_adjustable_map_is_applied_at_another_level(
    http: httpx.Client, client: Calibrant, stored: dict[str, str]
) -> None:
    body = ROWS | {"method": "lac", "options": {"conditional": "class", "adjustable": True}}
    ref = body_of(http.post("/maps", json=body), 201)["id"]
    for alpha in (0.0, 0.3, 1.0):
        local = calibrant.fit_sets(PROBS, LABELS, conditional="class", adjustable=True, class_names=NAMES).at(alpha)
        answer = body_of(http.post("/calibrate", json={"map": ref, "predictions": NEW.tolist(), "alpha": alpha}))
        assert (answer["alpha"], answer["sets"]) == (local.alpha, local.apply(NEW).to_lists())
        assert client.calibrate_sets(ref, NEW, alpha=alpha).sets.to_lists() == local.apply(NEW).to_lists()
    fixed = http.post("/calibrate", json={"map": stored["lac"], "predictions": NEW.tolist(), "alpha": 0.3})
    assert problem_of(fixed) == (422, "invalid-option", "/alpha")
    rows = {"predictions": PROBS[:, 0].tolist(), "labels": (LABELS == 0).astype(int).tolist()}
    platt = body_of(http.post("/maps", json=rows | {"method": "platt"}), 201)["id"]
    refused = http.post("/calibrate", json={"map": platt, "predictions": [0.5], "alpha": 0.3})
    assert problem_of(refused) == (422, "invalid-field", "/alpha")


def test_risk_control_takes_the_clusters_of_the_rows(http: httpx.Client) -> None:
    p, cluster = RANDOM.random(300), np.arange(300) // 6
    y = (RANDOM.random(300) < p).astype(int)
    rows = {"predictions": p.tolist(), "labels": y.tolist(), "clusters": list(map(str, cluster))}
    record = body_of(http.post("/maps", json=rows | {"method": "crc", "options": {"alpha": 0.2}}), 201)
    local = calibrant.fit_sets(p, y, method="crc", alpha=0.2, clusters=cluster)
    assert calibrant.load_sets(record["document"]) == local
    answer = body_of(http.post("/calibrate", json={"map": record["id"], "predictions": [0.0, 1.0]}))
    assert (answer["alpha"], answer["sets"]) == (None, [[0], [1]])  # no coverage is promised


def test_risk_control_takes_several_labels_of_each_row(http: httpx.Client, client: Calibrant) -> None:
    p = RANDOM.random((200, 4))
    y = (RANDOM.random((200, 4)) < p).astype(int)
    local = calibrant.fit_sets(p, y, method="crc", alpha=0.2)
    ref = body_of(http.post("/maps/import", json={"document": local.to_document()}), 201)["id"]
    new = RANDOM.random((5, 4))
    answer = body_of(http.post("/calibrate", json={"map": ref, "predictions": new.tolist()}))
    assert answer["sets"] == local.apply(new).to_lists()
    sets = client.calibrate_sets(ref, new).sets
    assert (sets.alpha, sets.to_lists()) == (None, local.apply(new).to_lists())
    for body, code, pointer in (
        ({"predictions": new[:, :3].tolist()}, "wrong-shape", "/predictions"),
        ({"predictions": (2 * new).tolist()}, "out-of-range", "/predictions"),
        ({"predictions": new.tolist(), "seed": 1}, "invalid-option", "/seed"),
        ({"predictions": new.tolist(), "scale": "logit"}, "scale-mismatch", "/scale"),
        ({"predictions": new.tolist(), "groups": ["a"] * 5}, "invalid-option", "/groups"),
    ):
        status, problem, place = problem_of(http.post("/calibrate", json={"map": ref} | body))
        assert (status, problem, place.startswith(pointer)) == (422, code, True), place


@pytest.mark.parametrize("kind", [JSON, NPZ, ARROW, CSV])
def test_risk_control_is_fitted_to_several_labels_of_each_row(http: httpx.Client, kind: str) -> None:
    p = RANDOM.random((200, 4)).round(3)
    y = (RANDOM.random((200, 4)) < p).astype(int)
    local = calibrant.fit_sets(p, y, method="crc", alpha=0.2)
    arrays: dict[str, Any] = {"predictions": p, "labels": y}
    if kind == JSON:
        answer = http.post("/maps", json=_listed(arrays) | {"method": "crc", "options": {"alpha": 0.2}})
    else:
        writer = {NPZ: lambda rows: npz(**rows), ARROW: lambda rows: arrow(_listed(rows)), CSV: csv_of}[kind]
        query = {"method": "crc", "options": json.dumps({"alpha": 0.2})}
        answer = http.post("/maps", content=writer(arrays), params=query, headers={"content-type": kind})
    record = body_of(answer, 201)
    assert calibrant.load_sets(record["document"]) == local
    assert (record["n"], record["digest"]) == (200, local.training_digest)


def test_the_client_fits_risk_control_to_several_labels_at_once_and_as_a_job(
    client: Calibrant, http: httpx.Client
) -> None:
    p = RANDOM.random((90, 3))
    y = RANDOM.random((90, 3)) < p
    names, groups = ["news", "sport", "law"], ["a", "b", "c"] * 30
    options: dict[str, Any] = {"alpha": 0.3, "conditional": "group"}
    local = calibrant.fit_sets(p, y, method="crc", groups=groups, **options)
    frames = {"predictions": pd.DataFrame(p, columns=names), "labels": pd.DataFrame(y, columns=names)}
    fitted = client.fit("crc", options=options, groups=groups, **frames)
    assert calibrant.load_sets(fitted.document) == local
    other = {"predictions": p.tolist(), "labels": y.astype(int).tolist(), "groups": groups}
    body = other | {"method": "crc", "options": options}
    job = body_of(http.post("/maps", json=body, headers={"prefer": "respond-async, wait=600"}), 201)
    assert calibrant.load_sets(job["document"]) == local
    assert job["n"] == 90
    with pytest.raises(CalibrationError, match="columns of the predictions"):
        client.fit("crc", options=options, groups=groups, **frames | {"labels": frames["labels"][names[::-1]]})
    with pytest.raises(UnusableRows, match="class_names"):
        client.fit("crc", predictions=p, labels=y, class_names=["no", "yes"])


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"labels": [[0, 1], [0, 2], [1, 1]]}, "invalid-label", "/labels/1/1"),
        ({"labels": [[0, 1], [0, 1]]}, "wrong-shape", "/labels"),
        ({"labels": [[0], [0], [1]]}, "wrong-shape", "/labels"),
        ({"labels": [[0, 1], [0], [1, 1]]}, "wrong-shape", "/labels/1"),
        ({"labels": [[], [], []], "predictions": [[], [], []]}, "wrong-shape", "/labels"),
        ({"predictions": [[0.5, 0.5], [0.5, 0.5], [3.0, 0.5]]}, "out-of-range", "/predictions/2/0"),
        ({"weights": [1.0, 1.0, 1.0]}, "invalid-option", "/weights"),
        ({"clusters": ["a", "b"]}, "length-mismatch", "/clusters"),
        ({"clusters": ["a", "b", ""]}, "invalid-option", "/clusters/2"),
        ({"features": {"x": [1, 2, 3]}}, "invalid-option", "/features/x"),
        ({"groups": ["a", "b", "c"]}, "invalid-option", "/groups"),
        ({"method": "lac"}, "wrong-shape", "/labels"),
        ({"method": "platt"}, "wrong-shape", "/labels"),
    ],
)
def test_several_labels_that_do_not_fit_are_refused(
    http: httpx.Client, changes: dict[str, Any], code: str, pointer: str
) -> None:
    body = {"predictions": [[0.5, 0.5]] * 3, "labels": [[0, 1], [1, 0], [1, 1]], "method": "crc"}
    assert problem_of(http.post("/maps", json=body | changes)) == (422, code, pointer)


def test_several_labels_of_a_row_are_not_stored_or_evaluated(http: httpx.Client) -> None:
    rows = {"predictions": [[0.5, 0.5]] * 3, "labels": [[0, 1], [1, 0], [1, 1]]}
    for path in ("/batches", "/evaluate", "/coverage"):
        assert problem_of(http.post(path, json=rows))[0] == 422, path


def _listed(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: array.tolist() for name, array in arrays.items()}


def test_frequency_weights_and_the_share_of_false_positives_are_fitted(http: httpx.Client) -> None:
    p = RANDOM.random(200)
    y, times = (RANDOM.random(200) < p).astype(int), RANDOM.integers(1, 4, 200)
    rows = {"predictions": p.tolist(), "labels": y.tolist(), "weights": times.tolist(), "weights_kind": "frequency"}
    options: dict[str, Any] = {"alpha": 0.1, "loss": "false-positive-rate"}
    record = body_of(http.post("/maps", json=rows | {"method": "crc", "options": options}), 201)
    local = calibrant.fit_sets(p, y, method="crc", weights=times, **options)
    assert calibrant.load_sets(record["document"]) == local


FITS: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown option": ({"options": {"penalty": 1}}, "invalid-option", "/options"),
    "alpha out of range": ({"options": {"alpha": 2}}, "invalid-option", "/options/alpha"),
    "alpha of another type": ({"options": {"alpha": [0.1]}}, "invalid-option", "/options/alpha"),
    "unknown condition": ({"options": {"conditional": "x"}}, "invalid-option", "/options/conditional"),
    "few rows": ({"options": {"alpha": 0.001}}, "too-few-rows", "/labels"),
    "one class": ({"labels": [0] * 300}, "one-class", "/labels"),
    "a reduction": ({"reduction": "confidence"}, "invalid-option", "/reduction"),
    "weights": ({"weights": [1.0] * 300}, "invalid-option", "/weights"),
    "clusters": ({"clusters": ["a"] * 300}, "invalid-option", "/clusters"),
    "groups without a condition": ({"groups": GROUPS.tolist()}, "invalid-option", "/groups"),
    "a condition without groups": ({"options": {"conditional": "group"}}, "invalid-option", "/groups"),
    "too short groups": (
        {"options": {"conditional": "group"}, "groups": ["a"]},
        "length-mismatch",
        "/groups",
    ),
    "risk of classes": ({"method": "crc"}, "wrong-shape", "/predictions"),
    "unknown method": ({"method": "lacs"}, "unknown-method", "/method"),
}


@pytest.mark.parametrize("name", FITS)
def test_an_invalid_fit_has_a_problem_that_names_the_place(http: httpx.Client, name: str) -> None:
    changes, code, pointer = FITS[name]
    answer = http.post("/maps", json=ROWS | {"method": "lac"} | changes)
    assert problem_of(answer) == (422, code, pointer)


APPLICATIONS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "no groups": ("group", {}, "invalid-option", "/groups"),
    "unknown group": ("group", {"groups": ["north"] * 6 + ["west"]}, "invalid-option", "/groups/6"),
    "groups of a map without any": ("lac", {"groups": ["north"] * 7}, "invalid-option", "/groups"),
    "no seed": ("random", {}, "invalid-option", "/seed"),
    "negative seed": ("random", {"seed": -1}, "invalid-field", "/seed"),
    "seed of a map without random numbers": ("lac", {"seed": 1}, "invalid-option", "/seed"),
    "bounds": ("lac", {"bounds": True}, "invalid-option", "/bounds"),
    "another number of classes": ("lac", {"predictions": [[0.5, 0.5]]}, "wrong-shape", "/predictions"),
    "another scale": ("lac", {"scale": "logit"}, "scale-mismatch", "/scale"),
}


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_invalid_application_has_a_problem_that_names_the_place(
    http: httpx.Client, stored: dict[str, str], name: str
) -> None:
    which, changes, code, pointer = APPLICATIONS[name]
    answer = http.post("/calibrate", json={"map": stored[which], "predictions": NEW.tolist()} | changes)
    assert problem_of(answer) == (422, code, pointer)
    assert "west" not in answer.text


def test_maps_of_probabilities_take_no_groups_and_set_maps_are_not_evaluated(
    http: httpx.Client, client: Calibrant, stored: dict[str, str]
) -> None:
    platt = client.fit("platt", predictions=PROBS[:, 0], labels=LABELS == 0).id
    for field, choice in (("groups", ["a"]), ("seed", 1)):
        answer = http.post("/calibrate", json={"map": platt, "predictions": [0.5], field: choice})
        assert problem_of(answer) == (422, "invalid-field", f"/{field}")
    evaluated = http.post("/evaluate", json=ROWS | {"map": stored["lac"]})
    assert problem_of(evaluated)[1:] == ("prediction-kind-mismatch", "/map")


def test_the_page_of_a_set_map_is_shown(http: httpx.Client, stored: dict[str, str]) -> None:
    page = text_of(http.get(f"/ui/maps/{stored['group']}"))
    assert "A map to prediction sets with alpha 0.1, with a threshold for each group." in page
    assert "bee" in page


def test_a_host_applies_set_maps(stored: dict[str, str]) -> None:
    fitted = calibrant.fit_sets(PROBS, LABELS, conditional="group", groups=GROUPS, class_names=NAMES)
    host = HostApp(HostProcess(ScoringSettings(), {"sets": HeldMap("sets", fitted, None)}))
    body = {"map": "sets", "predictions": NEW, "groups": GROUPS[:7].tolist()}
    assert body_of(post(host, "/calibrate", body))["sets"] == fitted.apply(NEW, groups=GROUPS[:7]).to_lists()


# --- The command


@pytest.mark.parametrize("on_server", [False, True])
def test_the_command_writes_the_members_of_each_set(service: Stack, tmp_path: Path, on_server: bool) -> None:
    file = tmp_path / "rows.csv"
    head = "label,site,ant,bee,cat"
    lines = [
        f"{NAMES[y]},{g},{','.join(map(repr, row))}" for row, y, g in zip(PROBS.tolist(), LABELS, GROUPS, strict=True)
    ]
    file.write_text("\n".join([head, *lines]) + "\n", "utf-8")
    where = ["--server", service.url] if on_server else []
    options = ["--method", "lac", "--option", "conditional=group", "--group", "site", "--holdout", "0.3"]
    fitted = succeeded(None, "fit", file, *options, *where, *([] if on_server else ["--out", tmp_path / "map.json"]))
    assert "held-out coverage (90 rows): 0.9" in fitted.stderr or "held-out coverage (90 rows): 0.8" in fitted.stderr
    reference = fitted.stdout.strip() if on_server else str(tmp_path / "map.json")
    output = tmp_path / "out.csv"
    done = succeeded(None, "calibrate", file, "--map", reference, "--group", "site", "--out", output, *where)
    assert "mean size" in done.stderr
    table = np.genfromtxt(output, delimiter=",", names=True, dtype=None, encoding="utf-8")
    members = np.column_stack([table[f"set_{name}"] for name in NAMES])
    assert set(members.ravel().tolist()) == {0, 1}
    assert 0.85 < members[np.arange(300), LABELS].mean() < 0.97


def test_the_command_refuses_what_only_set_maps_take(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("label,p,site\n" + "".join(f"{i % 2},{i / 50},a\n" for i in range(50)), "utf-8")
    refused = invoked(None, "fit", file, "--method", "platt", "--group", "site")
    assert refused.exit_code == 2
    calibrant.fit("platt", np.arange(50) / 50, np.arange(50) % 2).save(tmp_path / "map.json")
    for flag, choice in (("--seed", "1"), ("--group", "site")):
        refused = invoked(None, "calibrate", file, "--map", tmp_path / "map.json", flag, choice)
        assert refused.exit_code == 2
        assert "prediction sets" in refused.output


def test_the_pages_of_set_maps_without_groups_are_shown(http: httpx.Client, stored: dict[str, str]) -> None:
    for name in (name for name in stored if name != "group"):
        for page in (f"/ui/maps/{stored[name]}", f"/ui/calibrate/{stored[name]}"):
            assert http.get(page, follow_redirects=True).status_code == 200, (name, page)


@pytest.mark.parametrize("K", [2, 3])
def test_a_host_numbers_the_labels_of_risk_control(K: int) -> None:
    p = RANDOM.random((60, K))
    fitted = calibrant.fit_sets(p, (RANDOM.random((60, K)) < p).astype(int), method="crc", class_names=["no", "yes"])
    host = HostApp(HostProcess(ScoringSettings(), {"sets": HeldMap("sets", fitted, None)}))
    answer = post(host, "/invocations", {"instances": [{"predictions": row} for row in p[:4].tolist()]})
    assert answer.json()["predictions"] == fitted.apply(p[:4]).to_lists()
