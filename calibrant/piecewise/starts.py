"""Where the fits start: knots at quantiles, evenly spaced, and at random."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from calibrant.cells import Floats
from calibrant.maps.curves import clipped_logit
from calibrant.piecewise.families import Family, abscissa, ends, raw_heights
from calibrant.piecewise.solver import Models

#: Starts of a model of two or more pieces.
STARTS = 4
#: Heights of PL begin at the identity, this far from 0 and 1 (C2 of the published code).
_HEIGHT_CLIP = 1e-3
_LEAST_SHARE = 1e-4


def starting_models(
    family: Family,
    p: Floats,
    mass: Floats,
    counts: tuple[int, ...],
    lines: int,
    *,
    monotone: bool,
    seed: int,
    device: str,
) -> Models:
    """Models of every piece count, line of the data and start; each begins at the identity map.

    ``p`` and ``mass (C,)`` are the cells. A model's name is its number in the order (count, line,
    start); models of one piece, which have no knots to choose, have as many starts for the sake of
    that order, and ``is_spare`` of them.
    """
    random = np.random.default_rng(seed)
    size = max(counts)
    knots = np.stack([_knots(family, p, mass, count, size, random) for count in counts])  # (counts, starts, size + 1)
    valid = np.arange(size)[None, :] < np.array(counts)[:, None]
    batch = (len(counts), lines, STARTS)
    spread = np.broadcast_to(knots[:, None], (*batch, size + 1)).reshape(-1, size + 1)
    heights = spread if family == "pl3" else clipped_logit(spread, _HEIGHT_CLIP)
    widths = np.log(np.maximum(np.diff(spread, axis=1) / np.ptp(ends(family)), _LEAST_SHARE))
    line = np.broadcast_to(np.arange(lines)[None, :, None], batch).reshape(-1)
    raw = raw_heights(_tensor(heights, device), monotone=monotone)
    return Models(
        raw,
        _tensor(widths, device),
        torch.as_tensor(line.copy(), device=device),
        torch.as_tensor(np.repeat(valid, lines * STARTS, axis=0), device=device),
        torch.arange(len(line), device=device),
    )


def _knots(family: Family, p: Floats, mass: Floats, count: int, size: int, random: np.random.Generator) -> Floats:
    """Knots of the starts of one piece count, ``(STARTS, size + 1)``, padded with the upper end."""
    low, high = ends(family)
    inner = np.arange(1, count) / count
    places = [inner, None, *(np.sort(random.random(count - 1)) for _ in range(STARTS - 2))]
    knots = np.full((STARTS, size + 1), high)
    knots[:, 0] = low
    reached = (np.cumsum(mass) - mass / 2) / mass.sum()
    for row, place in zip(knots, places, strict=True):
        chosen = np.sin(np.pi / 2 * inner) ** 2 if place is None else np.interp(place, reached, p)
        row[1:count] = abscissa(family, chosen)
    return knots


def _tensor(values: Floats, device: str) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device=device)
