# ruff: noqa: E501 - rows of a table
"""The page of what each decoder may allocate; tests/contract/test_pages.py compares it with the decoders."""

from __future__ import annotations

from service.formats.catalogue import FORMATS
from service.formats.format import Memory
from service.settings import MIB, Settings

_PAGE = """\
# Memory of requests

A process of the API has one budget for all requests, `--max-request-memory` ({budget} MiB). A reader reserves bytes before
it allocates them, and a request holds what it reserved until it ends. With API keys, a tenant may hold half of the
budget. A request that alone needs more gets 413 `too-large`; a request that needs what others hold gets 503 `busy`, or 429
`too-many-requests` if the others are of its tenant, with `Retry-After`. With the default, a process stays below 3 GiB: the
budget, some 250 MB of code and data, and the pieces that readers work on, about 16 MiB in each heavy request that runs.
The manifests give it 4 GiB, of which `/tmp` may take 1 GiB.

Heavy requests wait for each other with their bodies alone, which then have at most a quarter of the budget
([settings](settings.md), `--max-waiting-requests`).

| decoder | reads | reserves before it allocates | other bounds | test |
|---|---|---|---|---|
| body as received | every call | bytes beyond 64 KiB, as they arrive, and those received so far once more while its buffer grows | `max_body_bytes` | `tests/unit/service/test_guard.py::test_a_body_that_is_read_again_is_counted_once` |
| `gzip`, `zstd`, `deflate` | `Content-Encoding` | each unpacked piece, of at most 16 MiB | `max_unpacked_bytes`; window of 8 MiB; number of members | `tests/integration/test_formats_hostile.py::test_a_hostile_encoding_is_refused` |
{formats}
| `application/cloudevents+json`, `application/cloudevents-batch+json` | events of monitors | as monitors' JSON | | `tests/unit/service/formats/test_json_values.py` |
| `application/octet-stream` | tensors of the inference protocol | the tensor; from JSON 16 bytes per element | `max_json_values` | `tests/unit/service/formats/test_memory_bounds.py::test_a_reader_reserves_what_it_allocates` |
| `application/x-www-form-urlencoded` | forms of the web page | | 64 KiB, 200 fields | `tests/integration/test_page_hostile.py` |
| `multipart/form-data` | files of the web page | 1 MiB, then space in `/tmp` | `max_body_bytes`; one file; 4,096 fields of 64 KiB | `tests/integration/test_spools.py` |
| CSV, JSON Lines, NPZ, NPY, Parquet and Arrow files, also compressed | uploads | unpacked: 32 MiB, then space in `/tmp`; 16 bytes per cell that is read, otherwise as above | 1e8 numbers | `tests/unit/io/test_reading.py::test_memory_is_reserved_before_a_file_is_unpacked` |
| JSON documents | uploads | as JSON Lines | 8 MiB | `tests/unit/io/test_hardening.py` |
| Excel workbooks | `calibrant` on the command line only | | a million rows; the service refuses them | `tests/unit/io/test_excel.py` |
| stored batches | calls with a batch | 3 copies of the rows | `max_batch_rows` | `tests/unit/test_work_copies.py::test_the_work_on_rows_takes_no_more_copies_than_are_reserved` |
| work on rows | checking, storing and calibrating; evaluations and fits | 5 copies of the rows as doubles; 3 copies, 256 bytes per row and up to 64 MiB for simulated rows | estimates of 2 s; longer work, and work that needs too much memory, is a job | `tests/unit/test_work_copies.py::test_the_work_on_rows_takes_no_more_copies_than_are_reserved` |

Peaks of a process to which four copies of a body were sent at once, each of 32 million rows in some kB:

| body | before, MB | now, MB |
|---|---|---|
| Arrow, two columns, evaluated | 5,889 | 1,160 |
| Arrow, two columns, stored | 5,419 | 547 |
| Arrow, two dictionaries, evaluated | 8,150 | 1,609 |
| Parquet, two columns | 6,157 | 1,302 |
| NPZ, two arrays | 6,209 | 1,370 |
| CSV with groups, zstd | 3,619 | 1,820 |
| JSON with names, 16 million values, zstd | 4,605 | 2,171 |
| NPY, a map applied | not measured | 1,642 |
| NPZ for a monitor, with ids and groups | not measured | 2,303 |

The bodies were sent one after the other to one process, whose memory from the body before counts. `make attack` sends
the same bodies. Reserved bytes are released when the request ends; the C library then returns the free memory of a large request to the
system. Reading stops when the request has been answered, for example after `--request-timeout`.
"""


def _row(kind: str, reads: str, memory: Memory) -> str:
    return f"| {kind} | {reads} | {memory.reserves} | {memory.bounds} | `{memory.test}` |"


def _formats() -> str:
    """The rows of the formats."""
    arrays = [
        _row(f"`{body_format.media_type}`", "every call" if body_format.options_in_body else "rows", body_format.memory)
        for body_format in FORMATS
        if body_format.memory
    ]
    rows = [
        _row(f"monitors' `{body_format.media_type}`", "rows of monitors", body_format.rows_memory)
        for body_format in FORMATS
        if body_format.rows_memory
    ]
    return "\n".join([*arrays, *rows])


def memory_page() -> str:
    """The page."""
    return _PAGE.replace("{formats}", _formats()).replace("{budget}", f"{Settings.max_request_memory // MIB:,}")
