"""A tally together with what it is of: the event, the scale of the predictions, the names of the groups."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

import numpy as np

from calibrant.batch import Scale
from calibrant.errors import CalibrationError, EmptyBatch, InvalidDocument, InvalidOption
from calibrant.evaluation import MAX_GROUPS, MAX_NAME
from calibrant.reductions import Event, resolve_event
from calibrant.tallies.grid import CELLS
from calibrant.tallies.tally import FOLDS, Tally, from_bytes, merged

#: How an event tally begins as bytes; the length of its heading follows, as four bytes, the heading as JSON, the tally.
_BEGIN = b"E1"
_PER_GROUP = 2 * CELLS * FOLDS


@dataclass(frozen=True)
class EventTally:
    """The rows of one event, counted: as small whatever their number, and added to others by ``merge``.

    ``reduction`` names the event; ``scale`` and ``n_classes`` (None for 1-D) say what predictions it was reduced from.
    ``groups`` are the names of the tally's groups 1, 2, ..., in order; its group 0 are the rows without one.
    ``clipped`` and ``renormalised`` rows were mended within the tolerance.
    """

    tally: Tally
    reduction: str
    scale: Scale = "probability"
    n_classes: int | None = None
    groups: tuple[str, ...] = ()
    clipped: int = 0
    renormalised: int = 0

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.tally)

    def of_group(self, name: str) -> EventTally:
        """The rows of one group; raises ``InvalidOption`` where it is not there."""
        if name not in self.groups:
            raise InvalidOption.at("/group", "is not among the groups of this tally")
        return replace(self, tally=self.tally.of_group(1 + self.groups.index(name)))

    def of_folds(self, folds: Iterable[int]) -> EventTally:
        """The rows of some folds."""
        return replace(self, tally=self.tally.of_folds(folds))

    def event(self) -> Event:
        """The rows as a weighted event, of all groups and folds. Raises ``EmptyBatch`` where there is none."""
        return replace(self.tally.event(), decided=self.reduction == "confidence" or "top:" in self.reduction)

    def to_bytes(self) -> bytes:
        """The tally as bytes, small and the same on every machine: what partitions send to where they are merged."""
        told = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "tally"}
        heading = json.dumps(told, ensure_ascii=False).encode()
        return _BEGIN + len(heading).to_bytes(4, "little") + heading + self.tally.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> EventTally:
        """Read what ``to_bytes`` wrote; raises ``InvalidDocument`` for anything else."""
        size = int.from_bytes(data[2:6], "little")
        try:
            if data[:2] != _BEGIN:
                raise ValueError
            told = json.loads(data[6 : 6 + size])
            found = cls(from_bytes(data[6 + size :]), **_read_heading(told))
        except (ValueError, TypeError, CalibrationError):
            raise InvalidDocument("the bytes are no event tally that this version reads") from None
        if len(found.tally.keys) and int(found.tally.keys[-1]) // _PER_GROUP > len(found.groups):
            raise InvalidDocument("the tally has rows of more groups than it names")
        return found


def _read_heading(told: Mapping[str, Any]) -> dict[str, Any]:
    n_classes, groups, counts = told["n_classes"], told["groups"], (told["clipped"], told["renormalised"])
    if told["scale"] not in get_args(Scale) or not (n_classes is None or type(n_classes) is int):
        raise ValueError
    if not isinstance(groups, list) or not all(isinstance(name, str) for name in groups):
        raise ValueError
    if not all(type(count) is int for count in counts):
        raise ValueError
    resolve_event(told["reduction"], n_classes)
    return {**told, "groups": tuple(groups)}


def merge(tallies: Iterable[EventTally]) -> EventTally:
    """The tally of all rows of some, whatever machines counted them and whatever groups each of them met.

    Parameters
    ----------
    tallies : of one event, reduced from predictions of one scale and K; at least one

    Raises
    ------
    CalibrationError
        ``EmptyBatch`` where there is none, ``InvalidOption`` where they are not of one event or have too many groups

    Examples
    --------
    >>> import calibrant
    >>> parts = [calibrant.tally([0.1, 0.8], [0, 1]), calibrant.tally([0.6], [1])]
    >>> len(calibrant.merge(parts))
    3
    """
    parts = list(tallies)
    if not parts:
        raise EmptyBatch.at("/tallies", "has no tally")
    first = parts[0]
    for i, part in enumerate(parts):
        if (part.reduction, part.scale, part.n_classes) != (first.reduction, first.scale, first.n_classes):
            raise InvalidOption.at(f"/tallies/{i}", "must be of the same reduction, scale and K as the first")
    names = sorted({name for part in parts for name in part.groups})
    check_groups(names)
    return replace(
        first,
        tally=merged([_renumbered(part, names) for part in parts]),
        groups=tuple(names),
        clipped=sum(part.clipped for part in parts),
        renormalised=sum(part.renormalised for part in parts),
    )


def check_groups(names: list[str]) -> None:
    """Refuse more groups, or longer names, than an evaluation takes."""
    if len(names) > MAX_GROUPS:
        raise InvalidOption.at("/groups", f"must name at most {MAX_GROUPS} groups")
    if any(len(name) > MAX_NAME for name in names):
        raise InvalidOption.at("/groups", f"must be names of at most {MAX_NAME} characters")


def _renumbered(part: EventTally, names: list[str]) -> Tally:
    """The tally with its groups numbered as their places in ``names`` say."""
    if part.groups == tuple(names):
        return part.tally
    place = {name: 1 + i for i, name in enumerate(names)}
    number = np.array([0, *(place[name] for name in part.groups)], dtype=np.uint32)
    keys = number[part.tally.keys // _PER_GROUP] * np.uint32(_PER_GROUP) + part.tally.keys % np.uint32(_PER_GROUP)
    order = np.argsort(keys)
    return Tally(keys[order], part.tally.rows[order], part.tally.p_sum[order])
