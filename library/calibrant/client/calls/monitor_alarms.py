"""Alarms of monitors, the audit log, proposed maps, and webhook deliveries."""

from __future__ import annotations

from calibrant.client.answers import (
    Proposal,
)
from calibrant.client.requests import get, path_of, read
from calibrant.client.retries import Patience, send
from calibrant.client.steps import JSON, Request, Steps


def accept_proposal(patience: Patience, monitor: str, *, if_match: Proposal | None = None) -> Steps[Proposal]:
    """Accept the proposed map: make it the next version of its name and move the alias to it.

    Parameters
    ----------
    if_match : Proposal, optional
        The proposal that was reviewed, as ``proposal`` returned it. No other one is accepted, such as one that
        replaced it meanwhile. By default, the proposal that is waiting now is accepted.

    Returns
    -------
    Proposal
        The accepted proposal, with the version.

    Raises
    ------
    ProblemResponse
        If there is no proposal, or the alias has moved since; with code ``precondition-failed`` if another proposal
        than ``if_match`` is waiting.

    Examples
    --------
    Accept a map if its gain is sure to be above 0.01, and no other map::

        proposed = client.proposal("inbox")
        if proposed.found.low is not None and proposed.found.low > 0.01:
            client.accept_proposal("inbox", if_match=proposed)
    """
    return (yield from _decide(patience, monitor, "accept", if_match))


def reject_proposal(patience: Patience, monitor: str, *, if_match: Proposal | None = None) -> Steps[Proposal]:
    """Reject the proposed map; the alias does not move.

    Parameters
    ----------
    if_match : Proposal, optional
        The proposal that was reviewed, as ``proposal`` returned it; no other one is rejected.

    Returns
    -------
    Proposal
        The rejected proposal.

    Raises
    ------
    ProblemResponse
        If there is no proposal; with code ``precondition-failed`` if another proposal than ``if_match`` is waiting.

    Examples
    --------
    Reject the map that was reviewed, and no other map::

        proposed = client.proposal("inbox")
        client.reject_proposal("inbox", if_match=proposed)
    """
    return (yield from _decide(patience, monitor, "reject", if_match))


def _decide(patience: Patience, monitor: str, decision: str, if_match: Proposal | None) -> Steps[Proposal]:
    headers = {"Accept": JSON}
    if if_match is not None:
        # The entity tag belongs to the bytes of the waiting proposal. No proposal has the tag of an id, so the server
        # refuses the decision about another one.
        waiting = yield from send(patience, get(path_of("monitors", monitor, "proposal")))
        none, same = f'"{if_match.id}"', read(Proposal, waiting) == if_match
        headers["If-Match"] = waiting.headers.get("ETag", none) if same else none
    request = Request("POST", path_of("monitors", monitor, "proposal", decision), headers=headers)
    return read(Proposal, (yield from send(patience, request)))
