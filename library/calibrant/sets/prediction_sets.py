"""Prediction sets: the classes that each row may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.core.results import Framed, Table

Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class PredictionSets(Framed):
    """The set of classes that each row may have.

    Attributes
    ----------
    members : ndarray of bool, shape (n, K)
        Whether the set of a row has a class.
    classes : tuple of str or int, length K
        Names of the classes in the order of the columns, or their numbers 0 to K - 1.
    alpha : float or None
        Error level, in (0, 1): about 1 - alpha of the sets have the label of their row. None if no coverage is
        promised, as by ``crc``.

    See Also
    --------
    SetMap.apply : Returns prediction sets.

    Examples
    --------
    >>> from calibrant import PredictionSets
    >>> import numpy as np
    >>> members = np.array([[True, False, False], [True, False, True]])
    >>> sets = PredictionSets(members, ("bird", "cat", "dog"), alpha=0.1)
    >>> sets.to_lists()
    [['bird'], ['bird', 'dog']]
    >>> sets.sizes.tolist()
    [1, 2]
    """

    members: Booleans
    classes: tuple[str | int, ...]
    alpha: float | None

    def __len__(self) -> int:
        return len(self.members)

    @property
    def sizes(self) -> Integers:
        """Number of classes in each set, shape (n,).

        See Also
        --------
        abstains : Whether a set does not name one class.

        Examples
        --------
        >>> from calibrant import PredictionSets
        >>> import numpy as np
        >>> PredictionSets(np.array([[True, True], [False, False]]), (0, 1), alpha=0.1).sizes
        array([2, 0])
        """
        sizes: Integers = np.count_nonzero(self.members, axis=1)
        return sizes

    @property
    def abstains(self) -> Booleans:
        """Whether each set does not name exactly one class, shape (n,): of two classes, it has both or none.

        See Also
        --------
        sizes : Number of classes in each set.

        Examples
        --------
        >>> from calibrant import PredictionSets
        >>> import numpy as np
        >>> PredictionSets(np.array([[True, True], [False, True]]), (0, 1), alpha=0.1).abstains
        array([ True, False])
        """
        other: Booleans = self.sizes != 1
        return other

    def to_lists(self) -> list[list[str | int]]:
        """Return the classes of each set, in the order of the columns.

        Returns
        -------
        list of list
            Names of the classes, or their numbers if they have no names.

        See Also
        --------
        to_frame : Returns a frame.

        Examples
        --------
        >>> from calibrant import PredictionSets
        >>> import numpy as np
        >>> PredictionSets(np.array([[True, True], [False, True]]), ("no", "yes"), alpha=0.1).to_lists()
        [['no', 'yes'], ['yes']]
        """
        names = iter([self.classes[k] for k in np.nonzero(self.members)[1].tolist()])
        return [list(islice(names, size)) for size in self.sizes.tolist()]

    def _document(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "classes": list(self.classes), "sets": self.to_lists()}

    def _records(self) -> Sequence[Mapping[str, Any]]:
        columns = zip(self.to_lists(), self.sizes.tolist(), strict=True)
        return [{"set": classes, "size": size} for classes, size in columns]

    def _table(self) -> Table:
        sizes = self.sizes
        rows = [
            ("classes", str(len(self.classes))),
            ("mean size", f"{sizes.mean():.4g}" if len(sizes) else ""),
            ("largest size", str(sizes.max(initial=0))),
            ("sets of one class", str(np.count_nonzero(sizes == 1))),
            ("empty sets", str(np.count_nonzero(sizes == 0))),
        ]
        alpha = "" if self.alpha is None else f", alpha {self.alpha:g}"
        return Table(f"Prediction sets of {len(self):,} rows{alpha}", ("property", "value"), rows)
