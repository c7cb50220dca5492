"""Generated data sets, where no package ships enough rows or classes: mixtures of Gaussians with wrong labels.

Each class is a mixture of normal distributions, so that the log odds are not linear in the features, and a share of
the labels is drawn again at random, so that no model may be certain: the true maps of overconfident models flatten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: Components of each class.
_PARTS = 3
#: The number of features if there are few classes; many classes need more of them.
_FEATURES = 12


class Generated(NamedTuple):
    """Rows, classes, the distance of components from the origin in units of their spread, and the seed.

    ``wrong`` is the share of labels drawn again, and ``first`` the share of class 0, which is random by default.
    """

    rows: int
    classes: int
    distance: float
    wrong: float
    seed: int
    first: float | None = None

    @property
    def features(self) -> int:
        """The number of features."""
        return _FEATURES if self.classes < 20 else 48


SETS: dict[str, Generated] = {
    "two-easy": Generated(320_000, 2, 1.6, 0.02, 1),
    "two-hard": Generated(320_000, 2, 0.7, 0.0, 2),
    "two-noisy": Generated(400_000, 2, 1.2, 0.25, 3),
    "two-million": Generated(1_060_000, 2, 1.0, 0.1, 4),
    "two-rare": Generated(350_000, 2, 0.9, 0.01, 15, first=0.97),
    "two-medium": Generated(90_000, 2, 1.0, 0.05, 5),
    "two-medium-noisy": Generated(60_000, 2, 1.4, 0.2, 6),
    "two-medium-hard": Generated(75_000, 2, 0.6, 0.0, 7),
    "two-medium-easy": Generated(80_000, 2, 1.8, 0.01, 16),
    "two-medium-rare": Generated(100_000, 2, 1.0, 0.02, 17, first=0.95),
    "three": Generated(320_000, 3, 1.1, 0.05, 8),
    "four": Generated(290_000, 4, 0.9, 0.3, 18),
    "five": Generated(300_000, 5, 1.2, 0.1, 9),
    "ten": Generated(280_000, 10, 1.3, 0.02, 10),
    "ten-noisy": Generated(90_000, 10, 1.5, 0.2, 11),
    "six": Generated(70_000, 6, 1.0, 0.0, 12),
    "hundred": Generated(75_000, 100, 1.0, 0.05, 13),
    "thousand": Generated(80_000, 1_000, 1.2, 0.02, 14),
    "four-medium": Generated(75_000, 4, 0.8, 0.1, 19),
    "ten-hard": Generated(80_000, 10, 0.7, 0.0, 20),
    "twenty": Generated(85_000, 20, 0.8, 0.05, 21),
    "hundred-noisy": Generated(75_000, 100, 1.2, 0.2, 22),
    "hundred-hard": Generated(75_000, 100, 0.6, 0.0, 23),
    "hundred-large": Generated(290_000, 100, 0.9, 0.1, 24),
    "thousand-noisy": Generated(75_000, 1_000, 1.4, 0.2, 25),
    "thousand-hard": Generated(75_000, 1_000, 1.0, 0.0, 26),
}


def draw(data: Generated) -> tuple[Array, Array]:
    """Features ``(n, d)`` in single precision and labels ``(n,)``, with unequal shares of the classes."""
    random = np.random.default_rng(data.seed)
    centres = data.distance * random.standard_normal((data.classes, _PARTS, data.features))
    shares = random.dirichlet(np.full(data.classes, 5.0))
    if data.first is not None:
        shares = np.array([data.first, *(shares[1:] * (1.0 - data.first) / shares[1:].sum())])
    labels = random.choice(data.classes, data.rows, p=shares)
    part = random.integers(_PARTS, size=data.rows)
    numbers = random.standard_normal((data.rows, data.features), dtype=np.float32)
    numbers += centres[labels, part].astype(np.float32)
    again = random.random(data.rows) < data.wrong
    labels[again] = random.choice(data.classes, int(again.sum()), p=shares)
    return numbers, labels
