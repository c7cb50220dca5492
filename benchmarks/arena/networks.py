"""Networks with logits, trained by torch on one thread with a fixed seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_WIDTH, _BATCH, _RATE = 128, 256, 2e-3
#: Rows whose logits are computed at once.
_CHUNK = 50_000


class ArenaNetwork:
    """A classifier with two hidden layers; ``residual`` adds two blocks with batch normalisation.

    ``smoothing`` is the share of each label that is spread over all classes, which makes the logits underconfident.
    """

    def __init__(self, *, smoothing: float = 0.0, residual: bool = False, steps: int = 1_500) -> None:
        self.smoothing, self.residual, self.steps = smoothing, residual, steps
        self._model: Any = None

    def fit(self, X: Array, y: Array) -> ArenaNetwork:
        """Train on features ``(n, d)`` and labels ``(n,)``, with Adam for a fixed number of steps."""
        import torch
        from torch import nn

        torch.manual_seed(0)
        n_classes = int(y.max()) + 1
        self._model = _layers(X.shape[1], n_classes, residual=self.residual)
        optimiser = torch.optim.Adam(self._model.parameters(), lr=_RATE)
        loss = nn.CrossEntropyLoss(label_smoothing=self.smoothing)
        features, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
        random = np.random.default_rng(0)
        self._model.train()
        for _ in range(self.steps):
            rows = torch.from_numpy(random.integers(len(y), size=_BATCH))
            optimiser.zero_grad()
            loss(self._model(features[rows]), labels[rows]).backward()
            optimiser.step()
        self._model.eval()
        return self

    def logits(self, X: Array) -> Array:
        """Logits ``(n, K)`` in single precision."""
        import torch

        with torch.no_grad():
            parts = [
                self._model(torch.tensor(X[at : at + _CHUNK], dtype=torch.float32)).numpy()
                for at in range(0, len(X), _CHUNK)
            ]
        return np.concatenate(parts)


def _layers(features: int, n_classes: int, *, residual: bool) -> Any:
    from torch import nn

    class ResidualBlock(nn.Module):
        """The input plus a normalised layer of it."""

        def __init__(self) -> None:
            super().__init__()
            self.step = nn.Sequential(nn.BatchNorm1d(_WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH))

        def forward(self, x: Any) -> Any:
            """Of hidden values ``(n, w)``."""
            return x + self.step(x)

    hidden = (
        [ResidualBlock(), ResidualBlock(), nn.ReLU()] if residual else [nn.ReLU(), nn.Linear(_WIDTH, _WIDTH), nn.ReLU()]
    )
    return nn.Sequential(nn.Linear(features, _WIDTH), *hidden, nn.Linear(_WIDTH, n_classes))
