"""An anytime-valid test of whether the coverage of prediction sets is below its nominal level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import expit, logit

from calibrant.core.cells import Floats
from calibrant.monitoring.evidence import LogitShift, evidence

# **The bet.** If each set has its label with probability at least c, given everything known before, then for every
# q < c the product over the rows of
#
#     q / c if the set has the label, and (1 - q) / (1 - c) if not
#
# is a supermartingale: its mean factor falls with the probability that the set has the label, and is 1 at c. The log-
# odds of q are those of c plus delta < 0, so that a bucket with n rows, of which m have their label, has the factor
# delta m + n log((1 - q) / (1 - c)). As for evidence against calibration (``evidence``), the average over fixed deltas
# and over starting buckets is at most a supermartingale that starts at 1, in any order of late labels that does not
# depend on them, and reaches 1 / alpha with probability at most alpha (Ville 1939). Sets that cover more often than
# nominal are never evidence: the guarantee of conformal prediction is one-sided.

#: Changes of the log-odds of coverage, in steps of a factor of 2: growth is at least 0.83 of that of the exact size.
_DROPS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


@cache
def coverage_drops() -> tuple[LogitShift, ...]:
    """Return the alternatives: negative shifts of the log-odds that a set has its label."""
    return tuple(LogitShift("line", -size) for size in _DROPS)


@dataclass(frozen=True)
class CoverageDrop:
    """Evidence that the coverage is below its nominal level.

    ``log_e`` is the natural logarithm of an e-process; ``rows`` predicted from the bucket ``start`` on, where the
    evidence is strongest, have the ``coverage``, None without rows.
    """

    log_e: float
    start: int
    rows: int
    coverage: float | None


def coverage_drop(counts: Floats, nominal: float, first: int = 0) -> CoverageDrop:
    """Test consecutive time buckets with ``counts (B, 2)``: rows, and rows whose set has the label. O(B).

    ``nominal`` is the level in (0, 1), and ``first`` the number of the first bucket, counted from the start of the
    test, as for ``evidence``.

    Examples
    --------
    >>> found = coverage_drop(np.array([[100.0, 91.0], [100.0, 72.0]]), 0.9)
    >>> round(found.log_e, 2), found.start, found.coverage
    (6.33, 1, 0.72)
    """
    deltas = np.array([shift.delta for shift in coverage_drops()])
    lower = expit(logit(nominal) + deltas)
    factors = counts[:, 1:] * deltas + counts[:, :1] * (np.log1p(-lower) - np.log1p(-nominal))
    equal = np.full(len(deltas), -np.log(len(deltas)))
    strongest = evidence(factors, first, alternatives=coverage_drops(), log_prior=equal)
    rows, covered = counts[strongest.start - first :].sum(axis=0).tolist() if len(counts) else (0.0, 0.0)
    return CoverageDrop(strongest.log_e, strongest.start, int(rows), covered / rows if rows else None)
