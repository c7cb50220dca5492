"""Choosing the number of pieces from cross-validated scores."""

from __future__ import annotations

import numpy as np

from calibrant.cells import Floats

#: A smaller model is preferred while its score is within this share of the best.
TOLERANCE = 0.001
#: A candidate's prior weight is exp(-PENALTY x its parameters).
PENALTY = 0.35
#: Candidates with less weight than this are left out.
_LEAST_WEIGHT = 1e-4


def choose(piece_counts: tuple[int, ...], scores: Floats) -> int:
    """Position of the chosen candidate: the smallest at or below the best whose score is within 0.1 % of it.

    ``scores (candidates,)`` are mean held-out losses, ``piece_counts`` ascend. The threshold refers
    to the smallest score; a candidate beyond it does not end the search (Kangsepp et al. 2022, C.2).
    """
    best = int(scores.argmin())
    good = [i for i in range(best + 1) if scores[i] <= scores[best] + TOLERANCE * scores[best]]
    return min(good, key=lambda i: piece_counts[i])


def weights(losses: Floats, parameters: Floats) -> Floats:
    """Weights of candidates in an average: proportional to exp(-loss - 0.35 parameters); the least become 0.

    ``losses (candidates,)`` are log losses of all rows together, each row's outside its fold.
    """
    logs = -losses - PENALTY * parameters
    given: Floats = np.exp(logs - logs.max())
    given[given <= _LEAST_WEIGHT * given.sum()] = 0.0
    return given / float(given.sum())
