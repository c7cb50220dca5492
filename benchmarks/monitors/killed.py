"""Several APIs ingest rows repeatedly and are killed at random: every row must count once.

Each client sends bodies of rows, one in twenty of which another client sends too. At random its API is killed
(SIGKILL) within milliseconds of a body and restarted; the client resends the body until it is answered.
Writes docs/benchmarks/monitor-chaos.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np

from backend.store.monitors.ledger import Ledger
from backend.store.server.connection import connect
from backend.store.store import Store
from benchmarks.monitors.bodies import Body, Columns, as_arrow, columns
from benchmarks.monitors.serving import Served, serving
from benchmarks.records import publish
from benchmarks.timing import machine

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "monitor-chaos.md"
#: One in this number of a client's rows is also another client's.
_TWICE = 20
#: The API is killed at most this number of seconds after a body is sent.
_WITHIN = 0.02


@dataclass(frozen=True)
class CountedRows:
    """Rows sent and counted; ``off_by`` is the error of the sum of predictions, which may be rounding."""

    rows: int
    sent: int
    kills: int
    counted: int
    predictions: int
    off_by: float
    wrong_labels: int
    seconds: float

    @property
    def exact(self) -> bool:
        """Whether every row counts once, with its prediction and label."""
        return self.counted == self.predictions == self.rows and self.wrong_labels == 0 and self.off_by < 1e-6


def run(rows: int, processes: int, body: int, share: float, seed: int = 0) -> CountedRows:
    """Send ``rows`` distinct rows from clients with one API each, which is killed at this share of the bodies."""
    began = time.monotonic()
    everything = columns(0, rows)
    # A process ends with the thread that started it, so a long-lived thread restarts the APIs.
    with serving(processes) as served, ThreadPoolExecutor(1) as again, ThreadPoolExecutor(processes) as threads:
        with httpx.Client(base_url=served[0].url, timeout=60) as http:
            http.post("/monitors", json={"name": "m", "max_ids": 10**8}).raise_for_status()
        dealt = [_bodies(everything, at, processes, body, seed) for at in range(processes)]
        clients = [
            threads.submit(_send, server, bodies, share, again, seed + at)
            for at, (server, bodies) in enumerate(zip(served, dealt, strict=True))
        ]
        kills = sum(client.result() for client in clients)
        store = Store.of(connect(served[0].redis_url))
        ledger = Ledger(store.redis, store.keys, store.monitors.get("m"))
        tally, totals = ledger.buckets.tally(0, 2**31), ledger.totals()
    return CountedRows(
        rows=rows,
        sent=rows + processes * (rows // processes // _TWICE),
        kills=kills,
        counted=len(tally),
        predictions=totals.get("predictions", 0),
        off_by=abs(float(tally.p_sum.sum()) - float(everything["prediction"].sum())),
        wrong_labels=abs(int(tally.rows[tally.keys % 2 == 1].sum()) - int(everything["label"].sum())),
        seconds=time.monotonic() - began,
    )


def _bodies(everything: Columns, at: int, processes: int, body: int, seed: int) -> list[Body]:
    """The bodies of one client: its own rows and some of the next client's, in random order."""
    n = len(everything["prediction"])
    own, others = np.arange(at, n, processes), np.arange((at + 1) % processes, n, processes)
    rng = np.random.default_rng([seed, at])
    mine = rng.permutation(np.concatenate([own, rng.choice(others, len(own) // _TWICE, replace=False)]))
    return [as_arrow(_chosen(everything, mine[start : start + body])) for start in range(0, len(mine), body)]


def _chosen(everything: Columns, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Columns:
    return {
        name: [values[row] for row in rows.tolist()] if isinstance(values, list) else values[rows]
        for name, values in everything.items()
    }


def _send(served: Served, bodies: Sequence[Body], share: float, again: Executor, seed: int) -> int:
    """Send bodies sequentially, each until it is answered; returns the number of kills."""
    rng, kills = np.random.default_rng(seed), 0
    with httpx.Client(base_url=served.url, timeout=120) as http:
        for number, body in enumerate(bodies):
            killing = None
            if rng.random() < share or (share and number == len(bodies) // 2):
                kills += 1
                killing = again.submit(_kill, served, float(rng.uniform(0, _WITHIN)))
            while not _post(http, body):
                pass
            if killing is not None:
                killing.result()
    return kills


def _kill(served: Served, after: float) -> None:
    """Kill an API after a delay, and restart it at its address."""
    time.sleep(after)
    served.process.kill()
    served.process.wait()
    served.start()


def _post(http: httpx.Client, body: Body) -> bool:
    """Whether a body was answered; the socket stays open while no API runs."""
    try:
        answer = http.post("/monitors/m/rows", content=body[0], headers={"content-type": body[1]})
    except httpx.TransportError:
        return False
    if answer.status_code == 503:  # the API has just started and has no connection to its store yet
        return False
    taken = answer.raise_for_status().json()
    if taken["refused"] or taken["contradicted"]:
        raise RuntimeError(str(taken))
    return True


def main() -> None:
    """Ingest a million rows with eight processes, killed at one in ten bodies, and write the page."""
    outcome = run(1_000_000, 8, 5000, 0.1)
    publish(PAGE, page(outcome))
    if not outcome.exact:
        sys.exit(1)


def page(of: CountedRows) -> str:
    """The page of the figures."""
    lines = [
        "# Ingestion under process kills: exactly-once test",
        "",
        f"Generated by `make monitor-chaos` on {machine()}. Eight API processes ingest {of.rows:,} distinct rows with",
        f"ids from eight clients; {of.sent - of.rows:,} of the rows "
        "are sent by two clients. For one body in ten the API is",
        "killed (SIGKILL) within 20 ms and restarted, and its client resends the body until it is answered.",
        "",
        "| | result |",
        "|---|---|",
        f"| rows sent, counting each body once | {of.sent:,} |",
        f"| processes killed | {of.kills} |",
        f"| rows counted | {of.counted:,} |",
        f"| predictions counted | {of.predictions:,} |",
        f"| labels counted incorrectly | {of.wrong_labels} |",
        f"| error of the sum of predictions | {of.off_by:.1e} |",
        f"| seconds | {of.seconds:.0f} |",
        "",
        f"Every row counted exactly once: **{'yes' if of.exact else 'no'}**.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
