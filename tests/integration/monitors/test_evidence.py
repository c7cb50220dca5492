"""Which rows are evidence: of what starts, whose labels are in, and mapped by one map."""

from __future__ import annotations

import numpy as np
import pytest

from backend.monitors.alarms import acknowledge
from backend.monitors.challengers import challenge
from backend.monitors.evidence import Remembered, look_at_evidence, settling
from backend.monitors.looks import look_at, tally_of_window
from backend.store.monitors.buckets import Buckets
from backend.store.monitors.definitions import Definitions
from backend.store.store import Store
from calibrant.monitoring.evidence import evidence, log_factors
from calibrant.monitoring.tally import FOLDS, Tally, tally_of
from schemas.monitor_alarms import Occasion
from tests.integration.monitors.streams import BEGAN, HOUR, actions_of, looked, pour, rows, standing_of
from tests.integration.monitors.test_looks import watched
from tests.integration.monitors.test_recalibrating import champion


def test_rows_before_an_acknowledgement_are_no_evidence_after_it(store: Store) -> None:
    record = watched(store, skew=7200)
    now = BEGAN + 10
    pour(store, record, 2, rows(5000, 0, shift=1.0))  # stamped up to the skew from now
    look_at(store, record, now)
    after = acknowledge(store, record, "evidence", None, now)
    assert after.started_at == BEGAN + 3 * HOUR
    again = Definitions(store.redis, store.keys).get("m")
    look_at(store, again, now + 1)
    assert actions_of(store, record) == ["alarm-raised", "alarm-acknowledged", "evidence-restarted"]


def test_starts_that_were_dropped_stay_so_under_a_longer_retention(store: Store) -> None:
    record = watched(store, retention=2 * 86_400)
    tally = rows(2000, 1, shift=0.3)
    looked(store, record, 100, tally)
    longer = record.model_copy(update={"retention": 90 * 86_400})
    now = BEGAN + 101 * HOUR
    buckets = Buckets(store.redis, store.keys, record)
    standings = [look_at_evidence(buckets, which, Remembered(), now) for which in (record, longer)]
    assert standings[0].evidence.log_e == standings[1].evidence.log_e
    whole = evidence(log_factors(tally)[None], 0)
    assert standings[1].evidence.log_e < whole.log_e - 1.0


def test_evidence_is_reset_when_the_alias_of_its_map_is_moved_by_hand(store: Store) -> None:
    first = champion(store, "m")
    record = watched(store, map="m@champion")
    assert looked(store, record, 0, rows(5000, 0, shift=1.0)).status == "alarm"
    second = champion(store, "m")
    assert first != second
    look_at(store, record, BEGAN + HOUR + 10)
    again = Definitions(store.redis, store.keys).get("m")
    assert again.started_at == BEGAN + 2 * HOUR
    assert actions_of(store, record) == ["alarm-raised", "evidence-restarted", "alarm-cleared"]
    # Once, and not at every look that follows.
    assert looked(store, record, 2, rows(5000, 1)).status == "ok"
    assert looked(store, record, 3, rows(5000, 2)).rows == 10_000
    assert actions_of(store, record)[3:] == []


def positives_first(n: int) -> tuple[Tally, Tally]:
    """Calibrated rows: those that came true, and those that did not."""
    random = np.random.default_rng(1)
    p = random.beta(1, 9, n)
    y = (random.random(n) < p).astype(np.int8)
    fold = random.integers(0, FOLDS, n)
    return tuple(tally_of(p[y == k], y[y == k], None, fold[y == k]) for k in (1, 0))  # type: ignore[return-value]


@pytest.mark.parametrize(("after", "status"), [(0, "alarm"), (48 * 3600, "ok")])
def test_buckets_count_once_their_labels_are_in(store: Store, after: int, status: str) -> None:
    record = watched(store, rules=[{"kind": "evidence", "after": after}])
    yes, no = positives_first(5000)
    early = looked(store, record, 0, yes)
    assert early.status == ("alarm" if after == 0 else "unknown")
    pour(store, record, 0, no)
    look_at(store, record, BEGAN + 49 * HOUR - 1)
    state = standing_of(store, record).rules["evidence"]
    assert (state.rows, state.status) == ((5000, "alarm") if after == 0 else (0, "unknown"))
    look_at(store, record, BEGAN + 49 * HOUR)
    state = standing_of(store, record).rules["evidence"]
    assert (state.rows, state.status) == (5000, status)


def test_a_challenger_is_fitted_to_rows_whose_labels_are_in(store: Store) -> None:
    asked = {"policy": "propose", "least_rows": 500}
    windows = [{"name": "hours", "seconds": 7200}]
    rules = [{"kind": "evidence", "after": 48 * 3600}]
    record = watched(store, windows=windows, rules=rules, recalibration=asked)
    yes, no = positives_first(5000)
    for tally in (yes, no, rows(1000, 3)):
        pour(store, record, 0, tally)
    pour(store, record, 40, yes)  # of which only these are known
    now = BEGAN + 49 * HOUR
    buckets = Buckets(store.redis, store.keys, record)
    counted = tally_of_window(buckets, record, record.windows[0], now, after=settling(record))
    assert len(counted) == 6000
    assert len(tally_of_window(buckets, record, record.windows[0], now - 1, after=settling(record))) == 0
    assert challenge(store, record, Occasion(rule="evidence", number=1), now).gain is not None
