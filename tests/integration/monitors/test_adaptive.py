"""The policy ``adaptive``: the error level of a map to prediction sets follows late labels, within its bound."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from backend.kinds.sets import set_record
from backend.monitors.adaptive_levels import read_adaptive
from backend.monitors.looks import look_at
from backend.monitors.recalibration import recalibrate_at
from backend.store.keyspace import new_id
from backend.store.store import Store
from calibrant.client import Calibrant
from calibrant.monitoring.tally import tally_of
from calibrant.sets.set_map import load_sets
from schemas.base import DAY
from schemas.maps import Registration
from schemas.monitor_online import AdaptiveReading
from schemas.monitors import MonitorRecord
from service.stack import Stack
from tests.commands import succeeded
from tests.integration.monitors.stored import monitor
from tests.integration.monitors.streams import BEGAN, HOUR, actions_of, events_of, pour, standing_of
from tests.integration.redis_server import until
from tests.integration.responses import body_of, problem_of
from tests.known import known

RANDOM = np.random.default_rng(80)
PROBS = RANDOM.dirichlet(np.ones(3), 400)
LABELS = np.array([RANDOM.choice(3, p=row) for row in PROBS])


def champion(store: Store, *, adjustable: bool = True, name: str = "sets", alpha: float = 0.1) -> str:
    fitted = calibrant.fit_sets(PROBS, LABELS, alpha=alpha, adjustable=adjustable)
    record = store.maps.put(set_record(new_id("map"), fitted, Registration(name=name), options={}, n=400, seed=0))
    store.aliases.point(name, "champion", record.version or 0, who=None, check=lambda _: None)
    return record.id


def following(store: Store, **policy: Any) -> MonitorRecord:
    """A monitor whose level gets a version every two hours."""
    asked = {"policy": "adaptive", "name": "sets", "every": 2 * int(HOUR), "options": {"gamma": 0.02}} | policy
    fields: dict[str, Any] = {"windows": [{"name": "day", "seconds": DAY}], "bucket": int(HOUR), "rules": []}
    fields |= {"n_classes": 3, "coverage": 0.9, "reduction": "binary", "retention": 10 * DAY, "horizon": DAY}
    record = monitor(store, **fields, recalibration=asked)
    recalibrate_at(store, record, BEGAN - 1.0)
    return record


def hour(store: Store, record: MonitorRecord, number: int, covered: Any) -> float:
    """Count the sets of an hour, and follow them at its end."""
    labels = np.asarray(covered).astype(np.int8)
    now = pour(store, record, number, tally_of(np.full(len(labels), 0.9), labels)) + 1.0
    recalibrate_at(store, record, now)
    return now


def reading(store: Store, record: MonitorRecord) -> AdaptiveReading:
    return known(read_adaptive(record, standing_of(store, record)))


def test_versions_have_the_level_that_follows_from_the_labels(store: Store) -> None:
    first = champion(store)
    record = following(store)
    assert (reading(store, record).in_force, reading(store, record).first) == (first, 0.1)
    hour(store, record, 0, [True] * 10)
    hour(store, record, 1, [True] * 6 + [False] * 4)
    adaptive = reading(store, record)
    state = calibrant.start_adaptive(0.1, gamma=0.02).update([True] * 16 + [False] * 4)
    assert (adaptive.rows, adaptive.misses, adaptive.rows_since) == (20, 4, 0)
    assert adaptive.level == pytest.approx(state.value) == adaptive.next_level
    (version,) = adaptive.versions
    assert (version.version, version.rows, version.map) == (2, 20, adaptive.in_force)
    alias = store.aliases.get("sets", "champion")
    assert (alias.version, alias.map) == (2, adaptive.in_force)
    stored = load_sets(store.maps.get("sets@champion").document)
    local = calibrant.fit_sets(PROBS, LABELS, adjustable=True).at(state.value)
    assert np.array_equal(stored.apply(PROBS).members, local.apply(PROBS).members)
    assert adaptive.error == 0.2
    assert adaptive.bound == pytest.approx(state.bound(adaptive.delay))
    assert adaptive.delay == 20
    assert actions_of(store, record) == ["alias-moved"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_share_of_misses_is_within_the_bound_for_adverse_streams(store: Store, seed: int) -> None:
    champion(store)
    record = following(store, options={"gamma": 0.1})
    random = np.random.default_rng(seed)
    for number in range(24):
        sets = load_sets(store.maps.get("sets@champion").document).apply(random.dirichlet(np.ones(3), 8)).members
        adverse = (number // 6 + seed) % 2 == 0
        hour(store, record, number, sets.all(axis=1) if adverse else sets.any(axis=1))
        adaptive = reading(store, record)
        if adaptive.error is not None and adaptive.bound is not None:
            assert abs(adaptive.error - 0.1) <= adaptive.bound + 1e-12
    assert adaptive.delay <= 24
    levels = [version.level for version in adaptive.versions]
    assert min(levels) < 0.05
    assert max(levels) > 0.15


def test_levels_beyond_0_and_1_have_whole_and_empty_sets(store: Store) -> None:
    champion(store)
    record = following(store, options={"gamma": 1.0}, every=int(HOUR))
    hour(store, record, 0, [False])
    assert load_sets(store.maps.get("sets@champion").document).apply(PROBS).members.all()
    hour(store, record, 1, [True] * 30)
    assert not load_sets(store.maps.get("sets@champion").document).apply(PROBS).members.any()


def test_a_moved_alias_or_another_step_starts_again(store: Store) -> None:
    champion(store)
    record = following(store)
    hour(store, record, 0, [True] * 10)
    hour(store, record, 1, [False] * 10)
    assert reading(store, record).rows == 20
    other = champion(store, alpha=0.2)
    recalibrate_at(store, record, BEGAN + 3 * HOUR)
    adaptive = reading(store, record)
    assert (adaptive.in_force, adaptive.rows, adaptive.first, adaptive.versions) == (other, 0, 0.2, [])


@pytest.mark.parametrize("case", ["no map", "not adjustable", "no sets"])
def test_without_a_fitting_map_the_policy_declines_once_per_pause(store: Store, case: str) -> None:
    if case == "not adjustable":
        champion(store, adjustable=False)
    if case == "no sets":
        from tests.integration.monitors.test_recalibrating import champion as of_probabilities

        of_probabilities(store, "sets")
    record = following(store)
    (event,) = events_of(store, record)
    assert event.type == "monitor.recalibration.declined"
    assert read_adaptive(record, standing_of(store, record)) is None
    look_at(store, record, BEGAN)
    assert len(events_of(store, record)) == 1
    if case == "no sets":
        return
    champion(store)
    recalibrate_at(store, record, BEGAN + DAY)
    assert reading(store, record).first == 0.1


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown option": ({"options": {"step": 1}}, "/recalibration/options"),
    "a step of 0": ({"options": {"gamma": 0}}, "/recalibration/options/gamma"),
    "a step of text": ({"options": {"gamma": "x"}}, "/recalibration/options/gamma"),
    "a short time": ({"every": 60}, "/recalibration/every"),
    "a long delay": ({"after": 9_000_000}, "/recalibration/after"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_policy_is_refused_with_its_place(http: httpx.Client, case: str) -> None:
    policy, pointer = BAD[case]
    body = {"name": new_id("monitor").replace("_", "-"), "n_classes": 3, "coverage": 0.9, "bucket": 3600}
    answer = http.post("/monitors", json=body | {"recalibration": {"policy": "adaptive", "name": "sets"} | policy})
    status, _, place = problem_of(answer)
    assert (status, place) == (422, pointer)


def test_other_monitors_have_no_adaptive_level(http: httpx.Client) -> None:
    body: dict[str, Any] = {"name": new_id("monitor").replace("_", "-"), "recalibration": {"policy": "adaptive"}}
    assert problem_of(http.post("/monitors", json=body))[2] == "/recalibration/policy"
    body |= {"n_classes": 3, "coverage": 0.9, "recalibration": {"policy": "online"}}
    assert problem_of(http.post("/monitors", json=body))[2] == "/recalibration/policy"


def test_the_level_is_in_the_answer_on_the_page_and_in_the_command(
    http: httpx.Client, client: Calibrant, service: Stack
) -> None:
    name = new_id("monitor").replace("_", "-").lower()
    body = {"method": "lac", "name": f"{name}-sets", "options": {"adjustable": True}}
    rows = {"predictions": PROBS.tolist(), "labels": LABELS.tolist()}
    body_of(http.post("/maps", json=body | rows), 201)
    body_of(http.put(f"/maps/{name}-sets/aliases/champion", json={"version": 1}))
    policy = {"policy": "adaptive", "name": f"{name}-sets"}
    definition = {"name": name, "n_classes": 3, "coverage": 0.9, "recalibration": policy}
    body_of(http.post("/monitors", json=definition), 201)
    sent = http.post(f"/monitors/{name}/rows", json={"rows": [{"prediction": [1, 0, 1], "label": 2}]})
    assert sent.status_code == 200, sent.text
    until(lambda: client.monitor(name).adaptive is not None)
    adaptive = known(client.monitor(name).adaptive)
    assert (adaptive.level, adaptive.rows) == (0.1, 0)
    assert adaptive.target == pytest.approx(0.1)
    assert "Adaptive error level" in http.get(f"/ui/monitors/{name}").text
    shown = succeeded(None, "monitors", "show", name, "--server", service.url)
    assert "adaptive level" in shown.output
