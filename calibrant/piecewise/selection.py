"""Weighing candidates by their out-of-fold losses."""

from __future__ import annotations

import numpy as np

from calibrant.cells import Floats

#: A candidate's prior weight is exp(-PENALTY x its parameters).
PENALTY = 0.35
#: Candidates with less weight than this are left out.
_LEAST_WEIGHT = 1e-4


def weights(losses: Floats, parameters: Floats) -> Floats:
    """Weights of candidates in an average: proportional to exp(-loss - 0.35 parameters); the least become 0.

    ``losses (candidates,)`` are log losses of all rows together, each row's outside its fold.
    """
    logs = -losses - PENALTY * parameters
    given: Floats = np.exp(logs - logs.max())
    given[given <= _LEAST_WEIGHT * given.sum()] = 0.0
    return given / float(given.sum())
