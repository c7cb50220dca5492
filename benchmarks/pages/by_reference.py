"""What can be computed from the rows, counts and tallies of a source, as a page of Markdown."""

from __future__ import annotations

from calibrant.calibrators import METHODS
from calibrant.distributed.accumulation import TOLERANCE
from calibrant.measures.catalogue import MEASURES

_HEAD = f"""# What can be computed by reference

Rows of a [source](../how-to/object-storage.md) are held as all rows, as counts of distinct predictions, or as a tally
of 2,048 cells, in the first form that fits in memory; `basis.form` of the answer says which. Generated from the
catalogues (`make reference`).

- *exact*: as from the same rows in a body. Values from counts agree to rounding; maps, and measures that contain a
  fit, as far as the fit converges. Resampled intervals have other random numbers.
- *other folds*: the value or the map is cross-validated. Of more than 10,000 rows, equal ones are divided into parts
  that are in one fold each, which changes it as other folds do.
- *tally*: each prediction is replaced by the mean of its cell, which is at most {TOLERANCE:.2g} away. Numbers of rows
  and labels are exact.
- *no*: the measure or map needs the whole vector of each row, which counts of one event do not have. The request is
  refused with `source-too-large`, or the result has the reason as its `problem`.
"""


#: Methods, and measures, that divide rows into folds.
METHODS_OF_FOLDS = ("es-cv", "ew-cv", "mli-spline", "pl", "pl3", "averaged")
OTHER_FOLDS = (
    *("ece-mli-spline", "ece-pl", "ece-pl3", "ece-averaged", "ece-matrix-odir", "ece-dirichlet-l2"),
    *("ece-dirichlet-odir", "ece-multinomial", "ece-iop-diagonal", "ece-iop-oi", "ece-iop-op"),
    *("recalibration-improvement", "ece-after-temperature"),
)


def by_reference_page() -> str:
    """The page: a table of the measures, and one of the methods."""
    parts = [_HEAD]
    for title, catalogue, of_folds in (("Measures", MEASURES, OTHER_FOLDS), ("Methods", METHODS, METHODS_OF_FOLDS)):
        parts += [f"## {title}\n", "| name | rows | distinct | tally |", "|---|---|---|---|"]
        for name, entry in catalogue.items():
            of_event = entry.event is not None
            counted = "other folds | other folds" if name in of_folds else "exact | tally"
            parts.append(f"| `{name}` | exact | {counted if of_event else 'no | no'} |")
        parts.append("")
    return "\n".join(parts)
