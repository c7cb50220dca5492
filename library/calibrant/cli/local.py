"""The work of a command done in this process by the library, without a server."""

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
    """The ``Engine`` of this process."""

    def evaluate(self, rows: Sheet, request: Evaluate) -> dict[str, Any]:
        """Measure the rows."""
        from calibrant.batch import read_batch
        from calibrant.diagrams.catalogue import read_diagrams
        from calibrant.evaluation import Evaluation
        from calibrant.maps.calibration_map import load
        from calibrant.measures.catalogue import read_requests
        from calibrant.measures.intervals import Resampling
        from calibrant.reports.document import report_document

        evaluation = Evaluation(
            read_requests(request.measures),
            request.reduction,
            None if request.map is None else load(_document(request.map)),
            Resampling.read(request.interval, request.resamples, request.seed),
            diagrams=read_diagrams(request.diagrams),
        )
        batch = read_batch(rows.predictions, rows.labels, rows.weights, scale=rows.scale)
        with bar() as shown:
            report = report_document(evaluation.run(batch, rows.groups, progress=shown), None)
        return as_answered(report)

    def fit(self, rows: Sheet, request: Fit) -> Fitted:
        """Fit a map to the rows; it is kept nowhere."""
        from calibrant.batch import read_batch
        from calibrant.calibrators import FitContext, Fitting
        from calibrant.in_sample import in_sample
        from calibrant.options import read_seed

        fitting = Fitting.read(request.method, request.options, request.reduction, where="/options")
        read_seed(request.seed)
        batch = read_batch(rows.predictions, rows.labels, rows.weights, scale=rows.scale)
        fitting.check(batch)
        with bar() as shown:
            fitted = fitting.run(batch, FitContext(request.seed, "cpu", shown))
        seen = in_sample(batch, fitted)
        scores = [{"log_loss": s.log_loss, "brier": s.brier, "ece": s.ece} for s in (seen.before, seen.after)]
        return Fitted(fitted.to_document(), {"before": scores[0], "after": scores[1]})

    def calibrate(self, rows: Sheet, map: str | dict[str, Any]) -> Floats:
        """Apply a map to the predictions."""
        from calibrant.batch import read_predictions
        from calibrant.maps.calibration_map import load

        return load(_document(map)).apply_checked(read_predictions(rows.predictions, scale=rows.scale))

    def draw(self, rows: Sheet, request: Picture) -> bytes:
        """Draw the rows."""
        from calibrant.plots.canvas import PictureError
        from calibrant.reports.pictures import BY_SIZE, draw_report, is_picture, keys_of

        request.check()
        report = _by_size(rows, request) if is_picture(request.diagram, BY_SIZE) else self._diagram(rows, request)
        form: Format = "png" if request.png else "svg"
        try:
            return draw_report(report, keys_of(report)[0], form=form, theme=request.theme, width=request.width).content
        except PictureError as error:
            raise Refused(error.detail) from error

    def _diagram(self, rows: Sheet, request: Picture) -> dict[str, Any]:
        """The report of a diagram of the catalogue, with the error in its title."""
        from calibrant.reports.pictures import read_diagram, shown_error

        diagram = read_diagram(request.diagram)
        error = shown_error({"name": diagram.diagram.name, **diagram.options}) | {"as": "error"}
        interval = LEVEL if request.interval is None else request.interval
        measured = Evaluate([error], [request.diagram], request.reduction, request.map, interval, seed=request.seed)
        return self.evaluate(rows, measured)


def _by_size(rows: Sheet, request: Picture) -> dict[str, Any]:
    from calibrant.batch import read_batch
    from calibrant.errors import CalibrationError
    from calibrant.reports.pictures import below_diagram, by_size_report, read_by_size

    batch = read_batch(rows.predictions, rows.labels, rows.weights, scale=rows.scale)
    task = read_by_size(request.diagram, request.reduction, request.seed)
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
