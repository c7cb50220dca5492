"""The section of docs/benchmarks/reliability.md about attacks."""

from __future__ import annotations

from typing import Any

from benchmarks.chaos.page_words import circumstances, paragraph

#: Attack, earlier result, mitigation, and result now.
_HELD = (
    (
        "two sockets with 40 MB of headers each, no key",
        "memory from 486 to 2,339 MB in 4 s; complete headers of 20 MB got 200",
        "431 above 64 KiB or 100 headers, also for trailers and chunk extensions "
        "([ADR 30](../adr/0030-connections-have-bounds.md))",
        "all are refused, +9 MB in total (below)",
    ),
    (
        "one endless header or URL at 5 MB/s, no key",
        "median of `/health/ready` 12.8 s for 40 s, probes got 503",
        "the same, and 414 for URLs above 16 KiB",
        "cut off at once; `/health/ready` as without an attack (below)",
    ),
    (
        "24.6 kB of zstd with 256 MiB of JSON strings; 6 kB of `[],[],...`",
        "5.4 GB, refused after 36 s, readiness 20.8 s; 2.2 GB",
        "`max_json_values` limits commas and colons, counted before parsing; large bodies are parsed in pieces",
        "413; memory at most 2.2 times the unpacked body; a piece blocks the interpreter for at most 36 ms",
    ),
    (
        "eight bodies that stall after 1.1 of 3 MB",
        "bodies over 1 MiB of all other tenants got 503 for 60 s",
        "a request takes a place when its body is complete; a tenant holds at most half "
        "([ADR 31](../adr/0031-shares.md)); `min_upload_rate`",
        "no other tenant is refused; stalled bodies get 408",
    ),
    (
        "`ece-cv` and fits of `es-cv` and `ew-cv` on separated data",
        "500",
        "a held-out score below its rounding error counts as 0",
        "a result",
    ),
    (
        "205 event streams of one tenant",
        "others got `too-many-streams`",
        "a tenant holds at most half of the streams, a key a quarter",
        "50 streams of one key, 503 for the rest; other tenants are served",
    ),
    (
        "an upload of 45 MB to a `/tmp` of 20 MB",
        "500",
        "space is reserved before the first byte is written",
        "507 `spool-full`",
    ),
    (
        "one tenant fills the store (`maxmemory` 64 MB)",
        "63.4 MB, then 503 for all tenants, readiness `ok`",
        "`store_budget`, half of it per tenant; readiness is `degraded`",
        "24.6 MB, then 507 for that tenant only",
    ),
    (
        "duplicate keys in NDJSON, events and queries",
        "accepted",
        "every reader counts keys",
        "refused",
    ),
    (
        "3,000 sockets with incomplete headers, no key",
        "all stayed open",
        "`header_timeout`, `max_connections_per_address`",
        "253 of 300 get 408 after 10 s, the rest 503 at once",
    ),
    (
        "ten kills of one child of `serve`",
        "five within a minute ended `serve`",
        "restarts without a limit, with growing pauses",
        "the API answers 200 throughout",
    ),
    (
        "2 kB of Arrow with one string of 20,000 characters for 100,000 rows; similar Parquet and CSV",
        "20.4 GB and 503 after 86 s on the page; 4.4 GB in `/evaluate`",
        "strings of a dictionary are not copied for each row, and their bytes are counted first",
        "413 or 422 within .3 s",
    ),
    (
        "200 kB of Parquet whose page headers have 200,000 values; a CSV row of 5 million cells",
        "503 after 60 s; 5.3 s and 360 MB",
        "a page header has at most 64 values, a CSV row has the limit of a line",
        "413 or 422",
    ),
    (
        "empty ids, sent twice; `0.9_5`; digits of other scripts; duplicate parameters",
        "accepted, and the rows counted twice",
        "`missing-id`; numbers must be plain digits",
        "refused",
    ),
)


def attack_part(figures: dict[str, Any]) -> list[str]:
    """Answers to hostile requests, and latencies of a probe and of another tenant in the meantime."""
    requests = sum(found["requests"] for found in figures["attacks"].values())
    return [
        "| attack | before | mitigation | now |",
        "|---|---|---|---|",
        *(f"| {' | '.join(cells)} |" for cells in _HELD),
        "",
        *paragraph(
            f"A fresh service has two tenants with one API key each. One tenant sends {requests:,} hostile requests, "
            "one kind after the other. Meanwhile a probe requests `/health/ready`, and the other tenant calibrates "
            "ten scores (`/calibrate`) and evaluates 100,000 rows as JSON (`/evaluate`, a heavy request), each "
            "sequentially. Attacker, clients, API, store and workers share the machine, so the figures include the "
            "attacker's own work. Memory is the growth of the API's peak resident memory during one kind of attack. "
            "`cut` means that the service closed the connection or the attacker gave up. All requests come from one "
            "address and share its limit of connections: a probe directly after the incomplete headers got 503."
        ),
        "",
        *paragraph(circumstances(figures)),
        "",
        "| attack | requests | answers | memory, MB | probe: p99, ms | `/calibrate`: p99, ms | `/evaluate`: p99, ms | "
        "other tenant: answers other than 200 |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(name, found) for name, found in figures["attacks"].items()),
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
