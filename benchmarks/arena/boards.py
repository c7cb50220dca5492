"""Statistics of a board: win rates, their bootstrap over data sets, harm, and the best method in hindsight."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Verdict = Literal["first", "tied", "behind", "too few data sets"]
RESAMPLES = 2_000
#: Harm (b): the log loss is higher by more than this share of the base model's ...
_MATERIAL = 0.01
#: ... and by more than this many paired standard errors over test rows.
_ERRORS = 1.645
#: A method is tied with its rivals if the win rate of none is higher by more than this.
_TIED = 0.005
#: Data sets below which the bootstrap over data sets says nothing.
FEWEST_DATASETS = 5


class WinRates(NamedTuple):
    """Win rates ``(m,)``, and their means over bootstrap samples ``(RESAMPLES, m)``."""

    means: Array
    samples: Array

    def interval(self, at: int) -> tuple[float, float]:
        """The 95 % percentile interval of one contender."""
        low, high = np.percentile(self.samples[:, at], [2.5, 97.5])
        return float(low), float(high)

    def difference(self, at: int, other: int) -> tuple[float, float, float]:
        """The difference of two win rates and its paired 95 % interval."""
        low, high = np.percentile(self.samples[:, at] - self.samples[:, other], [2.5, 97.5])
        return float(self.means[at] - self.means[other]), float(low), float(high)

    def is_first(self, at: int) -> bool:
        """Whether the interval of its difference to every other contender lies above 0."""
        others = (other for other in range(len(self.means)) if other != at)
        return all(self.difference(at, other)[1] > 0.0 for other in others)


def wins(scores: Array, *, ties: float = 0.5) -> Array:
    """Shares ``(n, m)`` of the other contenders that each contender beats, from scores ``(n, m)``, lower is better.

    A tie counts ``ties``: half, or nothing under the strict rule of CalArena's leaderboard.
    """
    m = scores.shape[1]
    shares: Array = np.empty(scores.shape)
    for at in range(m):
        mine = scores[:, [at]]
        beaten = (mine < scores).sum(axis=1) + ties * ((mine == scores).sum(axis=1) - 1)
        shares[:, at] = beaten / (m - 1)
    return shares


def rates(shares: Array, datasets: Array, seed: int = 0) -> WinRates:
    """Mean win rates over experiments; whole data sets ``(n,)`` are drawn with replacement, as in CalArena."""
    _, of_row = np.unique(datasets, return_inverse=True)
    counts = np.bincount(of_row).astype(float)
    sums = np.zeros((len(counts), shares.shape[1]))
    np.add.at(sums, of_row, shares)
    drawn = np.random.default_rng(seed).multinomial(
        len(counts), np.full(len(counts), 1.0 / len(counts)), size=RESAMPLES
    )
    return WinRates(shares.mean(axis=0), (drawn @ sums) / (drawn @ counts)[:, None])


def verdict(rates: WinRates, at: int, n_datasets: int) -> Verdict:
    """How one contender stands among the others, by the paired 95 % intervals of the differences of win rates.

    It is first if its difference to every rival lies above 0, and tied if no interval allows a rival to be ahead by
    more than half a percentage point. Otherwise it is behind: a rival may be ahead by more, even if none is known to
    be. With fewer than 5 data sets there is no verdict.

    >>> ahead = np.array([[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [0.7, 0.3], [0.8, 0.2]])
    >>> found = rates(ahead, np.arange(5))
    >>> verdict(found, 0, 5), verdict(found, 1, 5), verdict(found, 0, 4)
    ('first', 'behind', 'too few data sets')
    """
    if n_datasets < FEWEST_DATASETS:
        return "too few data sets"
    if rates.is_first(at):
        return "first"
    rivals = (rates.difference(other, at) for other in range(len(rates.means)) if other != at)
    return "tied" if all(high <= _TIED for _, _, high in rivals) else "behind"


def datasets_for_first(rates: WinRates, at: int, n_datasets: int) -> int | None:
    """The number of data sets at which one contender would be first, or None if a rival leads or wins as often.

    It supposes that the mean differences stay as they are and that the intervals narrow with the square root of the
    number of data sets.
    """
    needed = 0.0
    for other in range(len(rates.means)):
        if other != at:
            mean, low, _ = rates.difference(at, other)
            if mean <= 0.0:
                return None
            needed = max(needed, n_datasets * ((mean - low) / mean) ** 2)
    return int(np.floor(needed)) + 1


def harm_at_all(loss: Array, base: Array) -> Array:
    """Harm (a): the test log loss is above the base model's; ties are no harm."""
    harmed: Array = loss > base
    return harmed


def harm_beyond_error(loss: Array, base: Array, error: Array) -> Array:
    """Harm (b): higher by more than 1 % and by more than 1.645 paired standard errors over test rows."""
    harmed: Array = (loss > (1.0 + _MATERIAL) * base) & (loss - base > _ERRORS * error)
    return harmed


def hindsight(loss: Array, peers: Array, files: Array) -> tuple[list[str], Array]:
    """Mean loss of each file over that of the peers' method that is best on it, in hindsight.

    ``loss (n,)``, ``peers (n, m)`` and ``files (n,)`` are of experiments; returns the files and the ratios.
    """
    names = [str(name) for name in np.unique(files)]
    ratios = [loss[files == name].mean() / peers[files == name].mean(axis=0).min() for name in names]
    return names, np.array(ratios)


def single(loss: Array, peers: Array, files: Array) -> tuple[int, Array]:
    """The peer with the lowest geometric mean of the mean losses of files, and the ratios of files to this one peer.

    ``loss (n,)``, ``peers (n, m)`` and ``files (n,)`` are of experiments.
    """
    names = np.unique(files)
    ratios = np.array([loss[files == name].mean() / peers[files == name].mean(axis=0) for name in names])
    best = int(np.log(ratios).mean(axis=0).argmax())
    of_files: Array = ratios[:, best]
    return best, of_files


def chosen_elsewhere(loss: Array, peers: Array, files: Array) -> Array:
    """Mean loss of each file over that of the peers' method that is best on its other experiments.

    Of each experiment, the peer is chosen by the mean over the other experiments of the file, which has several;
    ``loss (n,)``, ``peers (n, m)`` and ``files (n,)`` are of experiments.
    """
    ratios = []
    for name in np.unique(files):
        rows = np.flatnonzero(files == name)
        others = peers[rows].sum(axis=0) - peers[rows]
        ratios.append(loss[rows].sum() / peers[rows, others.argmin(axis=1)].sum())
    return np.array(ratios)


def geometric_mean(ratios: Array) -> float:
    """The geometric mean."""
    return float(np.exp(np.log(ratios).mean()))


def accuracy_change(gained: Array, lost: Array, rows: Array) -> tuple[Array, Array]:
    """Changes of accuracy ``(n,)`` and McNemar's standard errors, from counts of rows that became right or wrong."""
    gained, lost = gained.astype(float), lost.astype(float)
    change: Array = (gained - lost) / rows
    error: Array = np.sqrt(gained + lost - (gained - lost) ** 2 / rows) / rows
    return change, error
