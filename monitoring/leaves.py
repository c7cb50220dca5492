"""The rows of one bucket as a process keeps them: all of them in the fixed cells, whatever their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats
from calibrant.tallies.grid import CELLS
from calibrant.tallies.tally import FOLDS, Tally, merged

#: Cells and outcomes.
WIDTH = 2 * CELLS
#: Keys of a group.
GROUP_KEYS = np.uint32(WIDTH * FOLDS)

Delays = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Leaf:
    """Rows by cell and outcome: ``cells (2, WIDTH)`` holds their number and the sum of their predictions.

    ``groups`` tells the same by group, of one fold; None where no row has one. ``generation`` and ``length`` are what
    the list was that it was read from; ``joined`` the labels of which ``delays`` tells.
    """

    generation: int
    length: int
    cells: Floats
    groups: Tally | None
    joined: int = -1
    delays: Delays | None = None

    @property
    def size(self) -> int:
        """Bytes, about."""
        own = self.cells.nbytes + (0 if self.delays is None else self.delays.nbytes)
        return own + 200 + (0 if self.groups is None else 20 * len(self.groups.keys))

    def grown(self, parts: Sequence[Tally]) -> Leaf:
        """The leaf with more tallies behind those it was read from."""
        if not parts:
            return self
        grouped = [] if self.groups is None else [self.groups]
        return replace(
            self,
            length=self.length + len(parts),
            cells=self.cells + pooled(parts),
            groups=by_group([*grouped, *parts]),
        )


def leaf_of(generation: int, parts: Sequence[Tally]) -> Leaf:
    """The leaf of a whole list."""
    return Leaf(generation, len(parts), pooled(parts), by_group(parts))


def pooled(parts: Sequence[Tally]) -> Floats:
    """The rows of tallies by cell and outcome, whatever their group and fold: ``(2, WIDTH)``."""
    found = np.zeros((2, WIDTH))
    if parts:
        keys = np.concatenate([part.keys for part in parts]) % np.uint32(WIDTH)
        found[0] = np.bincount(keys, np.concatenate([part.rows for part in parts]), WIDTH)
        found[1] = np.bincount(keys, np.concatenate([part.p_sum for part in parts]), WIDTH)
    return found


def by_group(parts: Sequence[Tally]) -> Tally | None:
    """The rows of tallies by group, of one fold; None where no row has a group."""
    if not any(len(part.keys) and part.keys[-1] >= GROUP_KEYS for part in parts):
        return None
    return groups_together(parts)


def groups_together(parts: Iterable[Tally]) -> Tally:
    """The rows of tallies by group, of one fold. O(sum of their cells)."""
    # Without the folds between them the keys of the groups lie close, and are added up in a small table.
    width = np.uint32(WIDTH)
    found = merged(replace(part, keys=part.keys // GROUP_KEYS * width + part.keys % width) for part in parts)
    return replace(found, keys=found.keys // width * GROUP_KEYS + found.keys % width)


def tally_of_cells(cells: Floats) -> Tally:
    """Pooled rows as a tally, of one group and fold."""
    keys = np.flatnonzero(cells[0])
    return Tally(keys.astype(np.uint32), cells[0, keys].astype(np.int64), cells[1, keys])
