"""NannyML's CBPE on the employment files: ``python -m benchmarks.estimates.cbpe DATA OUT``.

The environment needs nannyml==0.13.1.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.data_sets import verified
from benchmarks.records import save

METRICS = {"accuracy": "accuracy", "auroc": "roc_auc", "f1": "f1"}
CHUNKS = 20


def main(data: Path, out: Path) -> None:
    import nannyml  # type: ignore[import-not-found]
    import pandas as pd

    estimator = nannyml.CBPE(
        y_pred_proba="predicted_probability",
        y_pred="prediction",
        y_true="employed",
        problem_type="classification_binary",
        metrics=list(METRICS.values()),
        chunk_number=CHUNKS,
    )
    estimator.fit(pd.read_parquet(verified(data / "employment_MA_reference.pq")))
    estimated = (
        estimator.estimate(pd.read_parquet(verified(data / "employment_MA_analysis.pq")))
        .filter(period="analysis")
        .to_df()
    )
    # The rows that do not divide by 20 are in a chunk of their own, which is left out.
    values = {name: estimated[(theirs, "value")].tolist()[:CHUNKS] for name, theirs in METRICS.items()}
    save(out, {"version": nannyml.__version__, **values})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
