"""Which rows are evidence: of what starts, whose labels are in, and mapped by one map."""

from __future__ import annotations

from calibrant.tallies.betting import evidence, log_factors
from monitoring.acknowledging import acknowledge
from monitoring.evidence import Remembered, look_at_evidence
from monitoring.looking import look_at
from storage.monitors.buckets import Buckets
from storage.monitors.definitions import Definitions
from storage.store import Store
from tests.integration.monitors.streams import BEGAN, HOUR, pour, rows
from tests.integration.monitors.test_looks import actions, begun, looked


def test_no_row_that_was_seen_is_evidence_after_an_acknowledgement(store: Store) -> None:
    record = begun(store, skew=7200)
    now = BEGAN + 10
    pour(store, record, 2, rows(5000, 0, shift=1.0))  # stamped up to the skew from now
    look_at(store, record, now)
    after = acknowledge(store, record, "evidence", None, now)
    assert after.started_at == BEGAN + 3 * HOUR
    again = Definitions(store.redis, store.keys).get("m")
    look_at(store, again, now + 1)
    assert actions(store, record) == ["alarm-raised", "alarm-acknowledged", "evidence-restarted"]


def test_starts_that_were_dropped_stay_so_under_a_longer_retention(store: Store) -> None:
    record = begun(store, retention=2 * 86_400)
    tally = rows(2000, 1, shift=0.3)
    looked(store, record, 100, tally)
    longer = record.model_copy(update={"retention": 90 * 86_400})
    now = BEGAN + 101 * HOUR
    buckets = Buckets(store.redis, store.keys, record)
    found = [look_at_evidence(buckets, which, Remembered(), now) for which in (record, longer)]
    assert found[0].evidence.log_e == found[1].evidence.log_e
    whole = evidence(log_factors(tally)[None], 0)
    assert found[1].evidence.log_e < whole.log_e - 1.0
