"""The work of a command by a server: rows are sent, jobs are waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from cli.asked import Evaluate, Fit, Picture
from cli.bars import bar
from cli.engine import Fitted

if TYPE_CHECKING:
    from calibrant.cells import Floats
    from calibrant_client import Calibrant
    from calibrant_client.calls.pictures import Theme
    from calibrant_client.rows import Rows
    from tabular.sheet import Sheet


class Remote:
    """What ``Engine`` says, by a server; rows are sent with what is asked of them, so that only maps are left there."""

    def __init__(self, client: Calibrant) -> None:
        self._client = client

    def evaluate(self, rows: Sheet, asked: Evaluate) -> dict[str, Any]:
        """Measure the rows."""
        with bar() as shown:
            report = self._client.evaluate(**_rows(rows), **asked.options(), progress=shown.of_job)
        return report.model_dump(exclude_unset=True)

    def fit(self, rows: Sheet, asked: Fit) -> Fitted:
        """Fit a map to the rows, which the server keeps."""
        with bar() as shown:
            record = self._client.fit(
                asked.method,
                name=asked.name,
                reduction=asked.reduction,
                options=asked.options,
                seed=asked.seed,
                progress=shown.of_job,
                **_rows(rows),
            )
        scores = None if record.in_sample is None else record.in_sample.model_dump()
        ref = record.id if record.name is None else f"{record.name}:{record.version}"
        return Fitted(record.document, scores, ref)

    def calibrate(self, rows: Sheet, map: str | dict[str, Any]) -> Floats:
        """Apply a map of the server's to the predictions."""
        calibrated: Floats = self._client.calibrate(cast(str, map), rows.predictions, scale=rows.scale)
        return calibrated

    def draw(self, rows: Sheet, asked: Picture) -> bytes:
        """Draw the rows."""
        with bar() as shown:
            return self._client.diagram(
                asked.diagram,
                form="png" if asked.png else "svg",
                theme=cast("Theme", asked.theme),
                width=asked.width,
                map=cast("str | None", asked.map),
                reduction=asked.reduction,
                interval=asked.interval,
                seed=asked.seed,
                progress=shown.of_job,
                **_rows(rows),
            )


def _rows(rows: Sheet) -> Rows:
    return {
        "predictions": rows.predictions,
        "labels": rows.labels,
        "weights": rows.weights,
        "groups": rows.groups,
        "scale": rows.scale,
    }
