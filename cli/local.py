"""The work of a command in this process, by ``calibrant`` itself: no server, no store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.asked import Evaluate, Fit, Picture
from cli.engine import Fitted
from cli.exits import Refused
from cli.output import bar

if TYPE_CHECKING:
    from calibrant.cells import Floats
    from calibrant.io.table import Sheet
    from schemas.evaluate import Pictured


class Local:
    """What ``Engine`` says, in this process."""

    def evaluate(self, rows: Sheet, asked: Evaluate) -> dict[str, Any]:
        """Measure the rows."""
        from calibrant.batch import read_batch
        from calibrant.diagrams.catalogue import read_diagrams
        from calibrant.evaluation import Evaluation
        from calibrant.maps.calibration_map import load
        from calibrant.measures.catalogue import read_requests
        from calibrant.measures.intervals import Resampling
        from calibrant.reports.document import report_document

        evaluation = Evaluation(
            read_requests(asked.measures),
            asked.reduction,
            None if asked.map is None else load(_document(asked.map)),
            Resampling.read(asked.interval, asked.resamples, asked.seed),
            diagrams=read_diagrams(asked.diagrams),
        )
        batch = read_batch(rows.predictions, rows.labels, rows.weights, scale=rows.scale)
        with bar() as shown:
            report = report_document(evaluation.run(batch, rows.groups, progress=shown), None)
        return as_answered(report)

    def fit(self, rows: Sheet, asked: Fit) -> Fitted:
        """Fit a map to the rows; it is kept nowhere."""
        from calibrant.batch import read_batch
        from calibrant.calibrators import FitContext, Fitting
        from calibrant.calibrators.fitting import read_seed
        from calibrant.in_sample import in_sample

        fitting = Fitting.read(asked.method, asked.options, asked.reduction, where="/options")
        read_seed(asked.seed)
        batch = read_batch(rows.predictions, rows.labels, rows.weights, scale=rows.scale)
        fitting.check(batch)
        with bar() as shown:
            fitted = fitting.run(batch, FitContext(asked.seed, "cpu", shown))
        seen = in_sample(batch, fitted)
        scores = [{"log_loss": s.log_loss, "brier": s.brier, "ece": s.ece} for s in (seen.before, seen.after)]
        return Fitted(fitted.to_document(), {"before": scores[0], "after": scores[1]})

    def calibrate(self, rows: Sheet, map: str | dict[str, Any]) -> Floats:
        """Apply a map to the predictions."""
        from calibrant.batch import read_predictions
        from calibrant.maps.calibration_map import load

        return load(_document(map)).apply_checked(read_predictions(rows.predictions, scale=rows.scale))

    def draw(self, rows: Sheet, asked: Picture) -> bytes:
        """Draw the rows."""
        from calibrant.plots.canvas import PictureError
        from service.pictures import draw_report, evaluation_of, keys_of, read_diagram, read_pictured

        options = asked.check()
        pictured = read_pictured(options)
        if pictured is None:
            measured = evaluation_of(options, read_diagram(options.diagram))
            report = self.evaluate(
                rows,
                Evaluate(
                    measured.measures, measured.diagrams, asked.reduction, asked.map, options.interval, seed=asked.seed
                ),
            )
        else:
            report = _pictured(rows, pictured, asked)
        try:
            return draw_report(report, keys_of(report)[0], "png" if asked.png else "svg", options).content
        except PictureError as error:
            raise Refused(error.detail) from error


def _pictured(rows: Sheet, pictured: Pictured, asked: Picture) -> dict[str, Any]:
    from backend.evaluations import Asked
    from backend.pictured import read_pictured
    from calibrant.batch import read_batch
    from calibrant.errors import CalibrationError
    from service.pictures import named_in_diagram

    batch = read_batch(rows.predictions, rows.labels, rows.weights, scale=rows.scale)
    try:
        made = Asked(read_pictured(pictured, asked.reduction, asked.seed), None, {})
        with bar() as shown:
            return made.document(batch, None, progress=shown)
    except CalibrationError as error:
        raise named_in_diagram(error) from None


def as_answered(report: dict[str, Any]) -> dict[str, Any]:
    """A report as it comes back from a server: its fields in the contract's order, and plain JSON throughout."""
    import orjson

    from schemas.evaluate import ReportAnswer

    answer = ReportAnswer.model_validate_json(orjson.dumps(report, option=orjson.OPT_SERIALIZE_NUMPY))
    return answer.model_dump(exclude_unset=True)


def _document(map: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(map, str):
        raise Refused("a map's name or id is known to a server alone; name one by --server, or give a file")
    return map
