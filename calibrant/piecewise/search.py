"""From starts to fits: all piece counts and lines of a batch, coarse cells first, then all; then the neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from calibrant.errors import NotConverged
from calibrant.piecewise.neighbours import with_one_fewer, with_one_more
from calibrant.piecewise.solver import Data, Models, Solved, solve

#: Told between the steps: done, total, stage.
Told = Callable[[int, int, str], None]

#: Steps of the starts on the coarse cells, of the best of them on all, and of a warm start from a neighbour.
COARSE_STEPS, FINE_STEPS, WARM_STEPS = 12, 20, 10
#: Models of up to this many pieces make one batch, larger ones another.
SMALL = 8


@dataclass(frozen=True)
class Fits:
    """The fits of one number of pieces: ``models`` one of each line, mean losses ``(lines,)``, whether converged."""

    models: Models
    loss: Tensor
    converged: Tensor

    def or_better(self, found: Solved, lines: Tensor) -> Fits:
        """These, and at ``lines`` what was found there where that is better."""
        better = found.loss < self.loss[lines]
        at = lines[better]
        models = Models.join([self.models, found.models[better]])
        order = torch.arange(len(self.loss), device=lines.device)
        order[at] = len(self.loss) + torch.arange(len(at), device=lines.device)
        loss, converged = self.loss.clone(), self.converged.clone()
        loss[at], converged[at] = found.loss[better], found.converged[better]
        return Fits(replace(models[order], name=self.models.name), loss, converged)


@dataclass(frozen=True)
class Search:
    """How the models of one family are found on one set of lines.

    ``coarse`` and ``fine`` are the same rows on few and on all cells; ``tolerance`` is a mean loss.
    """

    coarse: Data
    fine: Data
    tolerance: float
    told: Told

    def fit(self, starts: Sequence[tuple[Models, int]], counts: Sequence[Sequence[int]], *, wide: bool) -> list[Fits]:
        """The fits of every count, ascending, from batches of ``starts`` (with their number per model).

        With ``wide``, every model is also started from the next smaller one, with knots put in where they
        help most, and from the next larger; and one that a smaller one still beats once more: the
        losses then do not rise with the number of pieces.
        """
        fits: list[Fits] = []
        for i, ((models, per_model), group) in enumerate(zip(starts, counts, strict=True)):
            fits += self._batch(models, per_model, len(group), i, len(counts))
        every = [count for group in counts for count in group]
        if wide:
            for i in range(1, len(every)):
                fits[i] = self._from_smaller(fits[i], fits[i - 1], every[i] - every[i - 1], slice(None))
            for i in range(len(every) - 2, -1, -1):
                fits[i] = self._from_larger(fits[i], fits[i + 1], every[i + 1] - every[i])
            for i in range(1, len(every)):
                beaten = torch.nonzero(fits[i].loss > fits[i - 1].loss)[:, 0]
                fits[i] = self._from_smaller(fits[i], fits[i - 1], every[i] - every[i - 1], beaten)
        total = len(fits) * len(fits[0].loss)
        self.told(total, total, "done")
        return fits

    def _batch(self, models: Models, per_model: int, counts: int, batch: int, batches: int) -> list[Fits]:
        total = len(models) // per_model

        def told(stage: str, begin: int) -> Callable[[int, int], None]:
            def tell(done: int, of: int) -> None:
                self.told((2 * batch + begin) * total + total * done // of, 2 * batches * total, stage)

            return tell

        tried = solve(
            self.coarse, models, steps=COARSE_STEPS, tolerance=10.0 * self.tolerance, told=told("coarse fits", 0)
        )
        names = torch.arange(total, device=models.line.device)
        best = tried.loss.view(-1, per_model).argmin(dim=1)
        winners = replace(tried.models[names * per_model + best], name=names)
        solved = solve(self.fine, winners, steps=FINE_STEPS, tolerance=self.tolerance, told=told("fine fits", 1))
        if not bool(torch.isfinite(solved.loss).all()):
            raise NotConverged("the fit has no finite loss")
        lines = total // counts
        return [
            Fits(solved.models[part], solved.loss[part], solved.converged[part]) for part in names.view(counts, lines)
        ]

    def _from_smaller(self, fits: Fits, smaller: Fits, more: int, lines: Tensor | slice) -> Fits:
        at = torch.arange(len(fits.loss), device=fits.loss.device)[lines]
        models = smaller.models[at].padded(fits.models.valid.shape[1])
        for _ in range(more):
            models = with_one_more(self.fine, models)
        return self._polished(fits, models, at)

    def _from_larger(self, fits: Fits, larger: Fits, fewer: int) -> Fits:
        models = larger.models
        for _ in range(fewer):
            models = with_one_fewer(self.fine, models)
        at = torch.arange(len(fits.loss), device=fits.loss.device)
        return self._polished(fits, models.padded(fits.models.valid.shape[1]), at)

    def _polished(self, fits: Fits, models: Models, lines: Tensor) -> Fits:
        if len(lines) == 0:
            return fits
        named = replace(models, name=torch.arange(len(models), device=lines.device))
        solved = solve(
            self.fine,
            named,
            steps=WARM_STEPS,
            tolerance=self.tolerance,
            told=lambda _done, _of: self.told(999, 1000, "neighbours"),
        )
        return fits.or_better(solved, lines)
