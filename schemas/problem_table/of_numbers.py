"""Problems of the data and options of a computation."""

from __future__ import annotations

from schemas.problem_table.row import ProblemRow

OF_NUMBERS = {
    "calibration-error": ProblemRow(
        422,
        "The computation failed",
        "The computation does not accept these values or options; the detail gives the reason.",
        "Change what the detail names.",
    ),
    "not-a-number": ProblemRow(
        422,
        "A value is not a number",
        "A numeric array contains a string, a boolean, null, an object or a number too large for a double, one of "
        "several rows is not an array, or the name of a group or a class is not a string.",
        "Send plain numbers, and leave out rows without a value.",
    ),
    "not-finite": ProblemRow(
        422,
        "A number is not finite",
        "A numeric array contains NaN or infinity.",
        "Find out why the model returns these values, and leave out the rows that the detail names. Calibrant does not "
        "impute values.",
    ),
    "out-of-range": ProblemRow(
        422,
        "A number is out of range",
        "A probability lies outside [0, 1] by more than 1e-4, or the sum of a row differs from 1 by more than 1e-4. "
        "For forecasts: a level is not between 0 and 1, levels do not increase, or an outcome is outside the support.",
        'Send probabilities. If the values are logits, set `"scale": "logit"`. Send levels such as 0.05, not 5.',
    ),
    "crossing-quantiles": ProblemRow(
        422,
        "Quantiles cross",
        "A quantile is below a quantile at a lower level, or an upper bound is below the lower one, by more than a "
        "millionth of the larger value. Smaller crossings are repaired and counted.",
        "Send the columns of quantiles in the order of the levels. If the model returns crossing quantiles, sort each "
        "row.",
    ),
    "invalid-variance": ProblemRow(
        422,
        "A variance is not positive",
        "A variance or standard deviation is 0 or negative.",
        "Leave out the rows that the detail names, or send forecasts without spread as quantiles.",
    ),
    "prediction-kind-mismatch": ProblemRow(
        422,
        "The prediction kind differs",
        "The request is for classification, but the map, batch or monitor is for regression, or the reverse. Or the "
        "call or option supports only one of them.",
        "Set `prediction_kind` to that of the map, batch or monitor.",
    ),
    "wrong-shape": ProblemRow(
        422,
        "An array has the wrong shape",
        "An array has the wrong number of dimensions or columns, its rows differ in length, or its number of classes "
        "differs from that of the map.",
        "Send predictions with shape (n,) or (n, K), quantiles and samples with shape (n, columns), and all other "
        "arrays with shape (n,).",
    ),
    "length-mismatch": ProblemRow(
        422,
        "Arrays differ in length",
        "An array such as `labels`, `weights` or `groups` has more or fewer rows than the predictions. For forecasts: "
        "`levels` and the columns of `quantiles` differ in number, or `by` is missing although the map was fitted "
        "with it.",
        "Send one value per row in each array, in the order of the predictions, and one level per column of "
        "`quantiles`.",
    ),
    "empty-batch": ProblemRow(
        422,
        "There are no rows",
        "The arrays are empty, or no row has a label among the `classes` of the request.",
        "Send at least one row.",
    ),
    "refused-path": ProblemRow(
        422,
        "The path is not below the root of the source",
        "The path of a source or target is absolute, is a URL, has names such as `..`, also encoded, has characters "
        "that are not visible, or leads through a symbolic link.",
        "Send a path below the root, such as `2026-11/*.parquet`.",
    ),
    "source-unreadable": ProblemRow(
        422,
        "The source cannot be read",
        "A file does not exist, may not be read, is damaged, or has columns of other types; or the object store "
        "refuses access. The detail has the code of the object store.",
        "Check the path and the file. The administrator checks the root and the credentials of the service.",
    ),
    "source-changed": ProblemRow(
        409,
        "The source changed during the work",
        "A file of the source was replaced or removed while the job read it, or between two runs of the job.",
        "Send the request again when nothing writes to the source.",
    ),
    "source-too-large": ProblemRow(
        422,
        "The work needs all rows in memory",
        "The rows of the source do not fit in memory, and the request needs them all: for results of the whole vector, "
        "with importance weights, for a comparison, or with `classes`.",
        "Name one event, such as `class:1`, use whole-number weights, or add conditions to `where`.",
    ),
    "engine-unavailable": ProblemRow(
        503,
        "The cluster cannot do the work",
        "The Dask scheduler of the service cannot be reached, does not answer or was lost, several of its workers were "
        "lost while they counted the same part of the source, or they have another version of `calibrant`.",
        "Send the request again when the cluster is well, or with the engine `local`.",
    ),
    "target-exists": ProblemRow(
        409,
        "Something is at the target",
        "A data set is never written over existing files, and only one job at a time writes to a path.",
        "Name a new path.",
    ),
    "invalid-label": ProblemRow(
        422,
        "A label is invalid",
        "A label is neither an integer from 0 to K - 1 (for predictions of shape (n,): 0 or 1) nor one of the "
        "`class_names`.",
        "Number the classes from 0 in the order of the columns of the predictions, or send their names as "
        "`class_names`.",
    ),
    "invalid-weight": ProblemRow(
        422,
        "A weight is invalid",
        "A weight is negative, all weights are 0, or frequency weights are not whole numbers or have too large a sum.",
        "Send weights of at least 0, at least one of them positive. Frequency weights are whole numbers; for others, "
        "omit `weights_kind`, which is `importance` by default.",
    ),
    "nothing-to-draw": ProblemRow(
        422,
        "The diagram cannot be drawn",
        "These rows do not determine the diagram; the detail gives the reason. For example, there are too few rows, "
        "all labels are equal, or the reduction (`canonical` or `classwise`) has no single event.",
        "Use the reduction `confidence` or `class:k`, another diagram, or more rows.",
    ),
    "no-labels": ProblemRow(
        422,
        "Labels are missing",
        "The batch was stored without labels.",
        "Store the batch again with labels, and send the request for the new batch.",
    ),
    "one-class": ProblemRow(
        422,
        "The labels contain only one class",
        "All labels are equal, and the fit or measure needs both outcomes.",
        "Send rows of both outcomes, for example from a longer period.",
    ),
    "missing-class": ProblemRow(
        422,
        "A class has no rows",
        "No label belongs to one of the classes, and the fit needs rows of every class.",
        "Send rows of every class, or use a method or reduction that does not need them.",
    ),
    "one-prediction": ProblemRow(
        422,
        "The predictions are all equal",
        "All predictions are equal or almost equal, so they determine no map or measure.",
        "Send the probabilities of the model, not its decisions. For a model that always returns the same prediction, "
        "use the method `accuracy-constant`.",
    ),
    "too-few-rows": ProblemRow(
        422,
        "There are too few rows",
        "The method, its folds or its bins need more rows, or more rows of one class.",
        "Send more rows, use fewer folds or bins, or use a method with fewer parameters.",
    ),
    "scale-mismatch": ProblemRow(
        422,
        "The scale differs from that of the map",
        "The map was fitted to predictions on another scale.",
        "Send probabilities to a map that was fitted to probabilities, and logits to a map that was fitted to logits.",
    ),
    "unknown-measure": ProblemRow(
        422,
        "Unknown measure",
        "There is no measure with this name.",
        "Use a name from `GET /measures`.",
    ),
    "unknown-diagram": ProblemRow(
        422,
        "Unknown diagram",
        "There is no diagram with this name.",
        "Use a name from `GET /diagrams`.",
    ),
    "unknown-method": ProblemRow(
        422,
        "Unknown method",
        "There is no method with this name, or it does not support this kind of prediction.",
        "Use a name from `GET /methods`.",
    ),
    "unknown-reduction": ProblemRow(
        422,
        "Unknown or unsuitable reduction",
        "There is no reduction with this name, or it does not fit the number of classes or the request.",
        "Use `binary` for predictions of shape (n,). For (n, K) use `confidence`, `class:k`, `top:r`, `within-top:r`, "
        "`classwise` or `canonical`; for measures also `pooled`; for maps also `top-label`, `ranks` or "
        "`within-ranks`.",
    ),
    "invalid-option": ProblemRow(
        422,
        "An option is unknown or invalid",
        "A measure, diagram or method does not have this option, or the value has the wrong type or is out of range.",
        "See `GET /measures`, `GET /diagrams` or `GET /methods` for the options.",
    ),
    "extra-not-installed": ProblemRow(
        422,
        "An optional package is missing",
        "The method or file format needs a package that is not installed on the server.",
        "Use another method or file format, or ask the operator to install the extra that the detail names.",
    ),
    "invalid-document": ProblemRow(
        422,
        "A map document is invalid",
        "The map document is damaged, or has a format that this version does not support.",
        'Send the document exactly as the service returned it. The page "Map document" of the documentation describes '
        "the format.",
    ),
    "not-converged": ProblemRow(
        422,
        "The fit did not converge",
        "The fit has no optimum for these rows, often because the predictions separate the classes perfectly.",
        "Fit to held-out rows, send more of them, or use a regularised method.",
    ),
}
