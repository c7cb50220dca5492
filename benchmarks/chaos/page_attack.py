"""The part of docs/benchmarks/reliability.md about attacks."""

from __future__ import annotations

from typing import Any

from benchmarks.chaos.page_words import circumstances, paragraph

#: What the first attack found: the attack, what happened then, what holds it now, and what happens now.
_HELD = (
    (
        "two sockets with 40 MB of headers each, no key",
        "486 to 2,339 MB in 4 s; a finished head of 20 MB got 200",
        "431 above 64 KiB or 100 headers, for trailers and chunk extensions too "
        "([ADR 30](../adr/0030-connections-have-bounds.md))",
        "every one is refused, at +9 MB in all: below",
    ),
    (
        "one header or URL without end at 5 MB/s, no key",
        "`/health/ready` 12.8 s in the median for 40 s, probes got 503",
        "the same, and 414 above 16 KiB of URL",
        "cut off at once; `/health/ready` as without an attack: below",
    ),
    (
        "24.6 kB of zstd that hold 256 MiB of JSON strings; 6 kB of `[],[],...`",
        "5.4 GB, refused after 36 s, readiness 20.8 s; 2.2 GB",
        "`max_json_values` counts commas and colons before parsing; large bodies are read in pieces",
        "413; at most 2.2 times the unpacked body; a piece holds the interpreter for at most 36 ms",
    ),
    (
        "eight bodies that stall behind 1.1 of 3 MB",
        "every other tenant's body over 1 MiB got 503 for 60 s",
        "a place is taken when the body is complete; a tenant holds at most half ([ADR 31](../adr/0031-shares.md)); "
        "`min_upload_rate`",
        "no other tenant is refused; 408 for those that stall",
    ),
    (
        "`ece-cv` and fits by `es-cv`, `ew-cv` of separated data",
        "500",
        "a held-out score that cancels to its own rounding counts as 0",
        "answers",
    ),
    (
        "205 event streams of one tenant",
        "others got `too-many-streams`",
        "a tenant holds half of the streams, a key a quarter",
        "50 streams of one key, 503 for the rest; others are served",
    ),
    (
        "an upload of 45 MB to a `/tmp` of 20 MB",
        "500",
        "room is reserved before the first byte is written",
        "507 `spool-full`",
    ),
    (
        "one tenant fills the store (`maxmemory` 64 MB)",
        "63.4 MB, then 503 for everybody, readiness `ok`",
        "`store_budget`, of which a tenant has half; readiness says `degraded`",
        "24.6 MB, then 507 for that tenant alone",
    ),
    (
        "equal keys in NDJSON, events and queries",
        "accepted",
        "every reader counts keys",
        "refused",
    ),
    (
        "3,000 sockets with half a head, no key",
        "all stayed open",
        "`header_timeout`, `max_connections_per_address`",
        "253 of 300 get 408 after 10 s, the rest 503 at once",
    ),
    (
        "ten kills of one child of `serve`",
        "five within a minute ended the stack",
        "growing pauses, nothing gives up",
        "the API answers 200 throughout",
    ),
    (
        "ids that are empty, sent again; `0.9_5`; digits of other scripts; doubled parameters",
        "accepted, the rows counted twice",
        "`missing-id`; numbers are plain digits",
        "refused",
    ),
)


def attack_part(told: dict[str, Any]) -> list[str]:
    """What hostile requests were answered, and what a probe and another tenant saw meanwhile."""
    requests = sum(found["requests"] for found in told["attacks"].values())
    return [
        "| attacked with | before | held by | now |",
        "|---|---|---|---|",
        *(f"| {' | '.join(cells)} |" for cells in _HELD),
        "",
        *paragraph(
            f"A fresh service with two API keys of two tenants. One sends {requests:,} hostile requests, each kind in "
            "turn. Meanwhile a probe asks for `/health/ready`, and the other tenant calibrates ten scores "
            "(`/calibrate`) and evaluates 100,000 rows as JSON (`/evaluate`, a heavy request), each one request after "
            "another. Attacker, clients, API, store and workers share the machine, so the figures contain the "
            "attacker's own work. Memory is the growth of the API's largest resident size during one kind of attack. "
            "`cut`: the service closed the connection, or the attacker gave up. All come from one address, and so "
            "share its bound of connections: a probe right after the half heads got 503."
        ),
        "",
        *paragraph(circumstances(told)),
        "",
        "| attack | requests | answers | memory, MB | probe: p99, ms | `/calibrate`: p99, ms | `/evaluate`: p99, ms | "
        "other tenant's answers but 200 |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(name, found) for name, found in told["attacks"].items()),
    ]


def _row(name: str, found: dict[str, Any]) -> str:
    answers = ", ".join(f"{number} {status}" for status, number in found["answers"].items())
    seen = found["seen"]
    p99 = (f"{1e3 * seen[who]['p99']:,.0f}" for who in ("probe", "small", "large"))
    others = [
        f"{number} of {sum(seen[who]['answers'].values())} {status}"
        for who in ("small", "large")
        for status, number in seen[who]["answers"].items()
        if status != "200"
    ]
    cells = (name, found["requests"], answers, f"{found['grown'] / 1e6:+,.0f}", *p99, ", ".join(others) or "none")
    return f"| {' | '.join(map(str, cells))} |"
