"""What the clients that score request: a map with two versions and a moving alias, and what the answers must be."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from benchmarks.chaos.asks import draw
from benchmarks.chaos.connections import Answer
from calibrant import load
from calibrant.client import Calibrant

#: The name of the map, the alias that moves, and the seconds between two moves.
MODEL, ALIAS, MOVE_SECONDS = "scored", "live", 2.0
#: Seconds within which a process sees a change of the store that it reaches.
SEEN_SECONDS = 1.0
_SCORES = [0.02, 0.11, 0.19, 0.28, 0.4, 0.52, 0.63, 0.75, 0.86, 0.97]
_TENSOR = {"inputs": [{"name": "predictions", "shape": [len(_SCORES)], "datatype": "FP64", "data": _SCORES}]}
_ROWS = 200


class Move(NamedTuple):
    """A move of the alias to a version, which took effect between two moments."""

    began: float
    ended: float
    version: int


@dataclass
class Moves:
    """The moves of the alias; one that is not acknowledged yet has no end. Moments are of the monotonic clock."""

    done: list[Move] = field(default_factory=list)

    @contextlib.contextmanager
    def moving(self, version: int) -> Iterator[None]:
        """A move, which did not take effect if it raises."""
        began = time.monotonic()
        self.done.append(Move(began, float("inf"), version))
        try:
            yield
        except BaseException:
            self.done.pop()
            raise
        self.done[-1] = Move(began, time.monotonic(), version)

    def accepted(self, known: float, ended: float) -> set[int]:
        """The versions that the alias may have until ``ended``, for a process that saw the moves until ``known``."""
        moves = list(self.done)
        before = [move for move in moves if move.ended <= known]
        return {move.version for move in (before[-1:] + [m for m in moves if m.ended > known and m.began <= ended])}


class ScoringRequest(NamedTuple):
    """A request with the version that must answer it; None for that of the alias."""

    path: str
    body: bytes
    version: int | None


class ScoredModel:
    """The two versions of the map, the results of each as of its document in this process, and the requests for it."""

    def __init__(self, client: Calibrant) -> None:
        self.ids: list[str] = []
        self._results: dict[int, list[float]] = {}
        for version in (1, 2):
            fitted = client.fit("platt", *draw(_ROWS, version), name=MODEL)
            self.ids.append(fitted.id)
            self._results[version] = load(client.export_map(fitted.id)).apply(np.array(_SCORES)).tolist()
        #: The moves of the alias since the first.
        self.moves = Moves()
        with self.moves.moving(1):
            client.alias(MODEL, ALIAS, 1)

    def requests(self) -> Iterator[ScoringRequest]:
        """Requests by alias, version, name and id, as ``POST /calibrate`` and as inference, again and again."""
        tensor = json.dumps(_TENSOR).encode()
        return itertools.cycle(
            [
                ScoringRequest("/calibrate", _body(f"{MODEL}@{ALIAS}"), None),
                ScoringRequest("/calibrate", _body(f"{MODEL}:1"), 1),
                ScoringRequest(f"/v2/models/{MODEL}@{ALIAS}/infer", tensor, None),
                ScoringRequest("/calibrate", _body(self.ids[1]), 2),
                ScoringRequest("/calibrate", _body(MODEL), 2),
                ScoringRequest(f"/v2/models/{MODEL}/versions/1/infer", tensor, 1),
            ]
        )

    def fault(self, request: ScoringRequest, answer: Answer, accepted: set[int]) -> str | None:
        """What is wrong with a response; ``accepted`` are the versions that the alias may have."""
        accepted = accepted if request.version is None else {request.version}
        if "outputs" in answer.body:
            version, values = int(answer.body["model_version"]), answer.body["outputs"][0]["data"]
        else:
            version, values = answer.body["version"], answer.body["predictions"]
        if version not in accepted:
            return f"{request.path}: version {version}, not {sorted(accepted)}"
        if values != self._results[version]:
            return f"{request.path}: not the values of version {version}"
        return None


def _body(ref: str) -> bytes:
    return json.dumps({"map": ref, "predictions": _SCORES}).encode()
