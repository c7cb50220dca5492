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
        "90 kB of rows `{}`, or 584 bytes of Arrow with empty lists, for a monitor of 10,000 classes",
        "2.5 GB",
        "only rows with a vector take its memory",
        "less than 64 MB (`test_monitor_places.py`)",
    ),
    (
        "a group name of 256 characters among a million short ones",
        "2.9 GB, readiness 8.2 s",
        "rows refer to distinct names, also in the store, in place of an array as wide as the longest",
        "at most 90 MB for bodies of 8 to 12 MB, readiness .04 s",
    ),
    (
        "100 bodies of 390 kB at once",
        "readiness 23.5 s; 150 gave other tenants 503",
        "light bodies are handled 2 MiB at a time, and tenants take turns ([ADR 31](../adr/0031-shares.md))",
        "readiness at most .83 s on a busier machine",
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
        "507 for that tenant (below); the other tenant stores (`test_budget.py`)",
    ),
    (
        "duplicate keys in NDJSON, JSON Lines files, events and queries; events with two kinds of data",
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
    (
        "importance weights of 1e308",
        "refused, although any scale is documented",
        "weights are scaled before they are summed",
        "results as with weights of 1, also for 1e-308 and 5e-324 (`test_queries.py`)",
    ),
    (
        "a body with invalid UTF-8",
        'always "from byte 0"',
        "the position of the first undecodable byte is determined",
        "bytes 0, 2 and 106 are named (`test_json_pieces.py`)",
    ),
    (
        "four Arrow bodies of 55 kB with 49 million rows each, read key; the same in every format",
        "memory of the API 6.1 GB; up to 8.2 GB",
        "unpacked bytes and copies are reserved before they exist ([table](../reference/memory.md))",
        "413 or 503, at most 2.3 GB (below; `test_memory.py`)",
    ),
    (
        "four fits of 40,000 x 100 on two workers; a long recalibration",
        "a short fit of another tenant waits for over 75 s; its recalibration until the long one ends",
        "the last free worker starts no job of a tenant that runs one ([ADR 20](../adr/0020-jobs-that-survive.md)); a "
        "tenant has half of the workers for background tasks",
        "at most .33 s (`test_workers.py`); beside the long one (`test_alarm_calls.py`)",
    ),
    (
        "80 test deliveries to a receiver that trickles header bytes",
        "events of other tenants: one per 15 s",
        "deliveries run side by side, 2 per target and 4 per tenant",
        "others are not delayed (`test_deliveries.py`)",
    ),
    (
        "arrays with the shape `(True,)`; two `Host` headers, `gzip, chunked`, no `Host`",
        "500; accepted",
        "shapes and heads are checked (RFC 9112)",
        "400, 415, 422, 501 (below)",
    ),
    (
        "a threshold rule for a group with a name of 1 MB",
        "stored, and read by every request to the monitor",
        "the limit of groups of rows: 200 bytes",
        "422 (`test_definitions.py`)",
    ),
    (
        "names such as `=HYPERLINK(...)` in a report that a spreadsheet opens; carriage returns in cells",
        "computed; a cell began a new row of the calibrated file",
        "reports quote such names; the writer of CSV quotes carriage returns. Other cells of a file stay as they are",
        "`test_html.py`, `test_maps_of_files.py`",
    ),
    (
        "a backup of Valkey 9.1 restored into Redis 7.0, and the reverse; three APIs on one store",
        "not tried",
        "backups are logical; quotas of monitors and jobs are exact, those of bytes and maps may be exceeded by "
        "concurrent writes, and rates for .1 s",
        "every key is equal; no row counted twice, one answer for each idempotency key",
    ),
    (
        "known faults of Lua and the protocol in Redis",
        "compose and Kubernetes ran Redis 7.4.2",
        "Redis 7.4.11; a documented [update](../how-to/redis.md#update)",
        "no file names another version or one before 7.4.11 (`test_containers.py`)",
    ),
    (
        "a changed package or image in a build",
        "`--extra-index-url` for torch, tags, no hashes",
        "a hashed lock is installed first, torch second, the project last ([ADR 29](../adr/0029-locks.md)); "
        "`make image-digests`",
        "all packages but torch have hashes, no install mixes indexes (`test_locks.py`); images have tags until "
        "`make image-digests` has run",
    ),
    (
        "a store that does not answer, on a busy machine",
        "the test failed: 2.3 s, bound 1.5 s",
        "bounds are fractions of a long `store_timeout`",
        "probes take less than 6 s with a timeout of 12 s (`test_outages.py`)",
    ),
    (
        "`calibrant evaluate` of a refused file",
        "5 of 85 runs aborted with code 134",
        "pyarrow's threads read no Python file",
        "only the calling thread reads a file (`test_reading.py`)",
    ),
    (
        "`ets` on predictions of a forest with exact zeros",
        "`NotConverged` on one of three halves",
        "changes of the loss are summed by row, with a bound on their rounding",
        "optima of three such data sets (`test_ets.py`)",
    ),
    (
        "generated clients of the OpenAPI document",
        "7 dangling references; 7 calls left out by openapi-python-client; 8 errors of redocly",
        "every reference resolves, every model has one name",
        "every call is generated, and every example sent (`test_generated_client.py`); `make openapi-clients` runs "
        "openapi-typescript and redocly",
    ),
    (
        "JSON tensors of Triton's HTTP client",
        "415, since it sends no Content-Type",
        "`/v2` reads a body without Content-Type as JSON",
        "JSON and binary, FP32 and FP64, as the library calibrates (`test_triton_client.py`)",
    ),
    (
        "other HTTP clients",
        "`cloudevents` and `prometheus_client` worked, others were not tried",
        "a test for each client",
        "`cloudevents` (`test_cloudevents_sdk.py`), `standardwebhooks` (`test_webhooks_page.py`), `prometheus_client`, "
        "httpx, curl, requests (`test_http_clients.py`); KServe's in `make integrations`",
    ),
)


def attack_part(figures: dict[str, Any]) -> list[str]:
    """Answers to hostile requests, and latencies of a probe and of another tenant in the meantime."""
    requests = sum(attack_figures["requests"] for attack_figures in figures["attacks"].values())
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
        *(_row(name, attack_figures) for name, attack_figures in figures["attacks"].items()),
    ]


def _row(name: str, attack_figures: dict[str, Any]) -> str:
    answers = ", ".join(f"{number} {status}" for status, number in attack_figures["answers"].items())
    seen = attack_figures["seen"]
    p99 = (f"{1e3 * seen[who]['p99']:,.0f}" for who in ("probe", "small", "large"))
    others = [
        f"{number} of {sum(seen[who]['answers'].values())} {status}"
        for who in ("small", "large")
        for status, number in seen[who]["answers"].items()
        if status != "200"
    ]
    cells = (
        name,
        attack_figures["requests"],
        answers,
        f"{attack_figures['grown'] / 1e6:+,.0f}",
        *p99,
        ", ".join(others) or "none",
    )
    return f"| {' | '.join(map(str, cells))} |"
