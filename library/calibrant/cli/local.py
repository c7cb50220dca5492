"""The engine that runs the work in this process, without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.cli.exits import Refused
from calibrant.cli.options import EvaluateFlags, Fit, PictureFlags
from calibrant.cli.output import bar
from calibrant.cli.results import Fitted, as_sent

if TYPE_CHECKING:
    from calibrant.core.batch import Batch
    from calibrant.core.cells import Floats
    from calibrant.io.table import Sheet
    from calibrant.plots.canvas import Format

#: Default level of the interval in the title of a diagram.
LEVEL = 0.95


class Local:
    """The ``Engine`` in this process."""

    def evaluate(self, rows: Sheet, request: EvaluateFlags) -> dict[str, Any]:
        """Evaluate the rows."""
        from calibrant.diagrams.catalogue import read_diagrams
        from calibrant.evaluation import Evaluation
        from calibrant.maps.calibration_map import check_class_names, load
        from calibrant.measures.catalogue import read_requests
        from calibrant.measures.cross_fitting import UNKNOWN, training_of
        from calibrant.measures.intervals import Resampling
        from calibrant.reports.operations import report_document

        fitted = None if request.map is None else load(_document(request.map))
        evaluation = Evaluation(
            read_requests(request.measures, request.reduction),
            request.reduction,
            fitted,
            Resampling.read(request.interval, request.resamples, request.seed),
            diagrams=read_diagrams(request.diagrams),
            training=UNKNOWN if fitted is None else training_of(fitted),
        )
        check_class_names(fitted, rows.classes)
        batch = batch_of(rows)
        with bar() as shown:
            report = report_document(evaluation.run(evaluation.check(batch, rows.groups), progress=shown), None)
        return as_answered(report)

    def fit(self, rows: Sheet, request: Fit) -> Fitted:
        """Fit a map to the rows, without storing it."""
        from calibrant.calibrators import FitContext, Fitting
        from calibrant.calibrators.fitting import with_training
        from calibrant.core.batch import grouped
        from calibrant.core.options import read_seed
        from calibrant.diagrams.in_sample import in_sample

        fitting = Fitting.read(request.method, request.options, request.reduction, where="/options")
        read_seed(request.seed)
        batch = batch_of(rows)
        if request.group_folds and rows.groups is not None:
            batch = grouped(batch, rows.groups)
        fitting.check(batch)
        with bar() as shown:
            fitted = fitting.run(batch, FitContext(request.seed, "cpu", shown))
        change = in_sample(batch, fitted)
        document = with_training(fitted, batch, request.options, request.seed, rows.classes).to_document()
        return Fitted(document, {"before": change.before.scores, "after": change.after.scores})

    def document(self, map: str | dict[str, Any]) -> dict[str, Any]:
        """Return the document of a map."""
        return _document(map)

    def calibrate(self, rows: Sheet, map: str | dict[str, Any]) -> Floats:
        """Apply a map to the predictions."""
        from calibrant.core.batch import read_predictions
        from calibrant.maps.calibration_map import load

        return load(_document(map)).apply_checked(read_predictions(rows.predictions, scale=rows.scale))

    def draw(self, rows: Sheet, request: PictureFlags) -> bytes:
        """Draw a diagram of the rows."""
        from calibrant.core.inputs import reduction_with_name
        from calibrant.plots.canvas import PictureError
        from calibrant.reports.pictures import BY_SIZE, draw_report, is_picture, keys_of

        request.check()
        report = _by_size(rows, request) if is_picture(request.diagram, BY_SIZE) else self._diagram(rows, request)
        # The title names the class.
        reductions = [reduction_with_name(each, rows.classes) for each in report["reduction"].split(", ")]
        report = {**report, "reduction": ", ".join(reductions)}
        form: Format = "png" if request.png else "svg"
        try:
            return draw_report(report, keys_of(report)[0], form=form, theme=request.theme, width=request.width).content
        except PictureError as error:
            raise Refused(error.detail) from error

    def _diagram(self, rows: Sheet, request: PictureFlags) -> dict[str, Any]:
        """The report for a diagram of the catalogue, with the error for its title."""
        from calibrant.reports.pictures import read_diagram, shown_error

        diagram = read_diagram(request.diagram)
        error = shown_error({"name": diagram.diagram.name, **diagram.options}) | {"as": "error"}
        interval = LEVEL if request.interval is None else request.interval
        measured = EvaluateFlags(
            [error], [request.diagram], request.reduction, request.map, interval, seed=request.seed
        )
        return self.evaluate(rows, measured)


def _by_size(rows: Sheet, request: PictureFlags) -> dict[str, Any]:
    from calibrant.core.errors import CalibrationError
    from calibrant.maps.calibration_map import check_class_names, load
    from calibrant.measures.cross_fitting import UNKNOWN, training_of
    from calibrant.reports.pictures import below_diagram, by_size_report, read_by_size

    batch = batch_of(rows)
    fitted = None if request.map is None else load(_document(request.map))
    check_class_names(fitted, rows.classes)
    training = UNKNOWN if fitted is None else training_of(fitted)
    task = read_by_size(request.diagram, request.reduction, request.seed, fitted, training)
    try:
        with bar() as shown:
            return by_size_report(task, task.check(batch), shown)
    except CalibrationError as error:
        raise below_diagram(error) from None


def batch_of(rows: Sheet) -> Batch:
    """Return the checked rows of a file; raises a ``CalibrationError``."""
    from calibrant.core.batch import read_batch

    return read_batch(rows.predictions, rows.labels, rows.weights, scale=rows.scale, kind=rows.weights_kind)


def as_answered(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report as a server sends it: plain JSON, with its fields in the order of the API."""
    import orjson

    from calibrant.client.answers import ReportAnswer, decode

    return as_sent(decode(ReportAnswer, orjson.loads(orjson.dumps(report, option=orjson.OPT_SERIALIZE_NUMPY))))


def _document(map: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(map, str):
        raise Refused("a map name or id needs --server; without a server, give the JSON file of the map")
    return map
