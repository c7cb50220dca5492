"""Decisions about proposals: the waiting one is accepted or rejected if it is the one that was reviewed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from calibrant.client.answers import Occasion, Proposal, RecalibrationData
from calibrant.client.calls.monitor_alarms import accept_proposal, reject_proposal
from calibrant.client.retries import Patience
from tests.unit.client.replies import answer, take

REVIEWED = Proposal(
    id="proposal_1",
    created_at="2026-07-01T00:00:00Z",
    occasion=Occasion(number=1),
    map="map_1",
    name="inbox",
    alias="champion",
    revision=None,
    found=RecalibrationData(monitor="inbox", gain=0.1),
)
OTHER = replace(REVIEWED, id="proposal_2", map="map_2")


@pytest.mark.parametrize(("decide", "path"), [(accept_proposal, "accept"), (reject_proposal, "reject")])
@pytest.mark.parametrize(("waiting", "tag"), [(REVIEWED, '"of-waiting"'), (OTHER, '"proposal_1"')])
def test_a_decision_about_a_reviewed_proposal_has_the_tag_of_that_one(
    decide: Any, path: str, waiting: Proposal, tag: str
) -> None:
    reply = answer(200, orjson.dumps(waiting.to_dict()), ETag='"of-waiting"')
    call = take(decide(Patience(), "inbox", if_match=REVIEWED), [reply, reply])
    read, decided = call.requests
    assert (read.method, read.path) == ("GET", "/monitors/inbox/proposal")
    assert (decided.method, decided.path) == ("POST", f"/monitors/inbox/proposal/{path}")
    assert decided.headers["If-Match"] == tag


@pytest.mark.parametrize("decide", [accept_proposal, reject_proposal])
def test_a_decision_without_a_reviewed_proposal_is_one_request(decide: Any) -> None:
    (request,) = take(decide(Patience(), "inbox"), [answer(200, orjson.dumps(OTHER.to_dict()))]).requests
    assert "If-Match" not in request.headers
