"""Every filter of a list changes it: of the call, of the command and of the page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
import pytest
import typer

from benchmarks.pages.commands import all_commands
from calibrant.cli.main import app
from calibrant.client import Calibrant
from service.route_table import RouteTable
from service.stack import Stack
from tests.commands import output_of, succeeded
from tests.integration.visiting import ROWS, Visitor

NEVER, LONG_AGO = "2999-01-01T00:00:00Z", "1999-01-01T00:00:00Z"
TIMES = {"created_after": NEVER, "created_before": LONG_AGO}


class Listed(NamedTuple):
    """A list: the query of what the test stored, a value of each filter that none of it has, and its command."""

    query: Mapping[str, str]
    others: Mapping[str, str]
    command: str | None = None
    page: str | None = None


LISTS: Mapping[str, Listed] = {
    "/maps": Listed(
        {"name": "filtered"},
        {
            **dict.fromkeys(("name", "method", "reduction", "alias", "tag", "created_by"), "none"),
            "scale": "logit",
            "n_classes": "77",
        },
        "maps list",
        "/ui/maps",
    ),
    "/jobs": Listed(
        {"batch": "{batch}"},
        {"batch": "batch_none", "status": "queued", "kind": "evaluate", **TIMES},
        "jobs list",
        "/ui/jobs",
    ),
    "/batches": Listed({}, TIMES),
    "/monitors": Listed({}, TIMES, "monitors list", "/ui/monitors"),
    "/audit": Listed(
        {"map": "filtered"},
        {
            **dict.fromkeys(("map", "alias", "monitor", "key", "request_id", "actor"), "none"),
            "action": "key-revoked",
            **TIMES,
        },
        "audit",
    ),
}
#: Lists of what happens to a monitor, which have tests of their own.
ELSEWHERE = {f"/monitors/{{name}}/{noun}" for noun in ("deliveries", "audit", "alarms")}
#: The options of filters that do not have their names.
FLAGS = {"created_after": "--after", "created_before": "--before", "n_classes": "--classes"}
COMMANDS = dict(all_commands(typer.main.get_command(app)))


def _flag(name: str) -> str:
    return FLAGS.get(name, f"--{name.replace('_', '-')}")


def test_every_filter_of_a_list_has_a_value_here_and_is_an_option_of_its_command() -> None:
    table = RouteTable([])
    table.load_all()
    paged = {call.path: call.query for call in table.calls if call.is_paged and call.is_documented}
    assert paged.keys() - ELSEWHERE == LISTS.keys()
    for path, listed in LISTS.items():
        query = paged[path]
        assert query is not None
        assert listed.others.keys() == query.model_fields.keys() - {"limit", "cursor"}
        if listed.command is not None:
            options = {flag for option in COMMANDS[f"calibrant {listed.command}"].params for flag in option.opts}
            assert {_flag(name) for name in listed.others} <= options, listed.command


@pytest.fixture(scope="module")
def stored(service: Stack) -> Mapping[str, str]:
    """Something in each list; the names in queries."""
    with Calibrant(service.url) as client:
        batch = client.upload(ROWS["predictions"], ROWS["labels"]).id
        client.fit("platt", batch=batch, name="filtered", tags={"of": "the test"})
        client.create_monitor("filtered")
    with httpx.Client(base_url=service.url, timeout=600) as http:
        job = http.post("/maps", json={"batch": batch, "method": "platt"}, headers={"Prefer": "respond-async"}).json()
    with Calibrant(service.url) as client:
        client.wait(job["id"], timeout=600)
    return {"batch": batch}


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, listed in LISTS.items() for name in listed.others])
def test_a_filter_leaves_out_what_does_not_match(
    service: Stack, http: httpx.Client, stored: Mapping[str, str], path: str, name: str
) -> None:
    listed = LISTS[path]
    query = {key: value.format_map(stored) for key, value in listed.query.items()}
    filtered = query | {name: listed.others[name]}
    assert http.get(path, params=query).json()["items"]
    assert http.get(path, params=filtered).json()["items"] == []
    if listed.command is not None:
        found = [_printed(service.url, listed.command, options) for options in (query, filtered)]
        assert [bool(items) for items in found] == [True, False]
    if listed.page is not None:
        with Visitor(service.url) as visitor:
            pages = [visitor.get(listed.page, params=params).text for params in (query, filtered)]
        assert [re.search(rf'<tr.*href="{listed.page}/', page, re.DOTALL) is not None for page in pages] == [
            True,
            False,
        ]


def _printed(server: str, command: str, query: Mapping[str, str]) -> list[Any]:
    """The entries that a command prints as JSON, in a list or one a line."""
    words = [word for name, value in query.items() for word in (_flag(name), value)]
    lines = output_of(succeeded(server, *command.split(), *words, "--json")).splitlines()
    documents = [json.loads(line) for line in lines]
    return documents[0] if documents and isinstance(documents[0], list) else documents
