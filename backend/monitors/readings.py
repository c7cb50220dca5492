"""Cached readings of a tally."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

import orjson

from calibrant.measures.measure import MeasureResult
from calibrant.monitoring.tally import Tally
from schemas.monitor_answers import MeasureReading

Value = TypeVar("Value")

#: Number of readings that a process caches.
_MOST_KEPT = 2048


class ReadingsCache:
    """A cache of results, keyed by everything that they depend on."""

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._turn = Lock()

    def of(self, tally: Tally, question: object, compute: Callable[[], Value]) -> Value:
        """The result of ``compute`` for a tally; ``question`` identifies the computation, as plain JSON."""
        key = _digest(tally, question)
        with self._turn:
            if key in self._kept:
                self._kept.move_to_end(key)
                held: Value = self._kept[key]
                return held
        computed = compute()
        with self._turn:
            self._kept[key] = computed
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return computed


def _digest(tally: Tally, question: object) -> bytes:
    digest = hashlib.blake2b(orjson.dumps(question), digest_size=24)
    for array in (tally.keys, tally.rows, tally.p_sum):
        digest.update(array.tobytes())
    return digest.digest()


def reading_of(result: MeasureResult, missing: str | None = None) -> MeasureReading:
    """A result as it is answered; ``missing`` is the reason why it has no interval."""
    parts = {name: part for name, part in result.parts.items() if not isinstance(part, dict)}
    return MeasureReading.with_fields_of(result, parts=parts, problem=result.problem or missing)
