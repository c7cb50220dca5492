"""The engine that sends the work to a server and waits for its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from calibrant.cli.options import EvaluateFlags, Fit, PictureFlags
from calibrant.cli.output import bar, say_map
from calibrant.cli.results import Fitted, as_sent

if TYPE_CHECKING:
    from calibrant.client import Calibrant
    from calibrant.client.frames import RowArguments
    from calibrant.client.rows import Theme
    from calibrant.core.cells import Floats
    from calibrant.io.table import Sheet


class Remote:
    """An ``Engine`` on a server. Rows are sent with each request, so the server stores only maps."""

    def __init__(self, client: Calibrant) -> None:
        self._client = client

    def evaluate(self, rows: Sheet, request: EvaluateFlags) -> dict[str, Any]:
        """Evaluate the rows."""
        with bar() as shown:
            report = self._client.evaluate(**_rows(rows), **request.options(), progress=shown.of_job)
        return as_sent(report)

    def fit(self, rows: Sheet, request: Fit) -> Fitted:
        """Fit a map to the rows; the server stores the map."""
        with bar() as shown:
            record = self._client.fit(
                request.method,
                name=request.name,
                reduction=request.reduction,
                options=request.options,
                seed=request.seed,
                allow_shape_change=request.allow_shape_change,
                group_folds=request.group_folds,
                progress=shown.of_job,
                **_rows(rows),
            )
        scores = None if record.in_sample is None else record.in_sample.to_dict()
        ref = record.id if record.name is None else f"{record.name}:{record.version}"
        return Fitted(record.document, scores, ref)

    def document(self, map: str | dict[str, Any]) -> dict[str, Any]:
        """Return the document of a stored map."""
        return self._client.map(cast(str, map)).document

    def calibrate(self, rows: Sheet, map: str | dict[str, Any]) -> Floats:
        """Apply a stored map to the predictions."""
        answer = self._client.calibrate(cast(str, map), rows.predictions, scale=rows.scale, return_map=True)
        say_map(answer)
        calibrated: Floats = answer.calibrated
        return calibrated

    def draw(self, rows: Sheet, request: PictureFlags) -> bytes:
        """Draw a diagram of the rows."""
        with bar() as shown:
            return self._client.diagram(
                request.diagram,
                form="png" if request.png else "svg",
                theme=cast("Theme", request.theme),
                width=request.width,
                map=cast("str | None", request.map),
                reduction=request.reduction,
                interval=request.interval,
                seed=request.seed,
                progress=shown.of_job,
                **_rows(rows),
            )


def _rows(rows: Sheet) -> RowArguments:
    return {
        "predictions": rows.predictions,
        "labels": rows.labels,
        "weights": rows.weights,
        "groups": rows.groups,
        "scale": rows.scale,
        "weights_kind": None if rows.weights is None else rows.weights_kind,
        "class_names": rows.classes if rows.labels is not None else None,
    }
