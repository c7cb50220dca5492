"""The work of a command in this process, by ``calibrant`` itself: no server, no store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.cli.engine import Fitted
from calibrant.cli.exits import Refused
from calibrant.cli.options import Evaluate, Fit, Picture
from calibrant.cli.output import bar
from calibrant.cli.remote import as_sent

if TYPE_CHECKING:
    from calibrant.cells import Floats
    from calibrant.io.table import Sheet
    from calibrant.plots.canvas import Format

#: The level of the interval in a diagram's title.
LEVEL = 0.95


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
        from calibrant.reports.pictures import BY_SIZE, draw_report, is_picture, keys_of

        asked.check()
        report = _by_size(rows, asked) if is_picture(asked.diagram, BY_SIZE) else self._diagram(rows, asked)
        form: Format = "png" if asked.png else "svg"
        try:
            return draw_report(report, keys_of(report)[0], form=form, theme=asked.theme, width=asked.width).content
        except PictureError as error:
            raise Refused(error.detail) from error

    def _diagram(self, rows: Sheet, asked: Picture) -> dict[str, Any]:
        """The report of a diagram of the catalogue, with the error in its title."""
        from calibrant.reports.pictures import read_diagram, shown_error

        diagram = read_diagram(asked.diagram)
        error = shown_error({"name": diagram.diagram.name, **diagram.options}) | {"as": "error"}
        interval = LEVEL if asked.interval is None else asked.interval
        request = Evaluate([error], [asked.diagram], asked.reduction, asked.map, interval, seed=asked.seed)
        return self.evaluate(rows, request)


def _by_size(rows: Sheet, asked: Picture) -> dict[str, Any]:
    from calibrant.batch import read_batch
    from calibrant.errors import CalibrationError
    from calibrant.reports.pictures import below_diagram, by_size_report, read_by_size

    batch = read_batch(rows.predictions, rows.labels, rows.weights, scale=rows.scale)
    task = read_by_size(asked.diagram, asked.reduction, asked.seed)
    try:
        with bar() as shown:
            return by_size_report(task, batch, shown)
    except CalibrationError as error:
        raise below_diagram(error) from None


def as_answered(report: dict[str, Any]) -> dict[str, Any]:
    """A report as a server sends it: its fields in the contract's order, and plain JSON throughout."""
    import orjson

    from calibrant.client.answers import ReportAnswer, decode

    return as_sent(decode(ReportAnswer, orjson.loads(orjson.dumps(report, option=orjson.OPT_SERIALIZE_NUMPY))))


def _document(map: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(map, str):
        raise Refused("a map's name or id is known to a server alone; name one by --server, or give a file")
    return map
