"""Problems of the data and of the options of a computation."""

from __future__ import annotations

from schemas.problem_table.row import Row

OF_NUMBERS = {
    "calibration-error": Row(
        422,
        "The request cannot be computed",
        "The computation refuses these numbers or options, for the reason in the detail.",
        "Change what the detail names.",
    ),
    "not-a-number": Row(
        422,
        "Something else where a number must stand",
        "A string, a boolean, null or an object stands among numbers, or a number does not fit a double; or a group's "
        "name is no string.",
        "Send plain numbers; leave rows without a value out.",
    ),
    "not-finite": Row(
        422,
        "A number is not finite",
        "NaN or an infinity stands among the numbers.",
        "Find out why the model gives it, and leave the rows named out; nothing is imputed here.",
    ),
    "out-of-range": Row(
        422,
        "A probability is out of range",
        "A probability lies outside [0, 1] by more than 1e-4, or a row of probabilities differs from sum 1 by more.",
        'Send probabilities, or, if these are the model\'s logits, say so by `"scale": "logit"`.',
    ),
    "wrong-shape": Row(
        422,
        "An array has the wrong shape",
        "An array has the wrong rank or width, its rows differ in length, or its number of classes is not the map's.",
        "Send predictions as (n,) or (n, K), everything else as (n,).",
    ),
    "length-mismatch": Row(
        422,
        "Arrays differ in length",
        "Labels, weights or groups have another number of rows than the predictions.",
        "Send one label, weight and group for each prediction, in the same order.",
    ),
    "empty-batch": Row(
        422,
        "There are no rows",
        "The arrays hold no row, or none is left of the classes chosen.",
        "Send at least one row.",
    ),
    "invalid-label": Row(
        422,
        "A label is invalid",
        "A label is no integer from 0 to K - 1, or not 0 or 1 where predictions are (n,).",
        "Number the classes from 0, in the order of the columns of the predictions.",
    ),
    "invalid-weight": Row(
        422,
        "A weight is invalid",
        "A weight is negative, or all are 0, or their sum is outside what `weights_kind` allows.",
        "Send weights of at least 0, some above; use `importance` for weights of which only the ratios matter.",
    ),
    "nothing-to-draw": Row(
        422,
        "The diagram does not exist of these rows",
        "Diagrams are of one event, which `canonical` and `classwise` are not, and some need more rows, or labels of "
        "both classes; the detail tells which it is.",
        "Ask under `confidence` or `class:k`, for another diagram, or with more rows.",
    ),
    "no-labels": Row(
        422,
        "Labels are missing",
        "The job's batch was stored without labels.",
        "Store the batch again with labels, and post the request on the new one.",
    ),
    "one-class": Row(
        422,
        "The labels hold one class only",
        "All labels say the same outcome, and the fit or measure needs both.",
        "Send rows of both outcomes; a longer window of the data often has them.",
    ),
    "missing-class": Row(
        422,
        "A class has no row",
        "A class of the predictions occurs in no label, and the fit needs rows of every class.",
        "Send rows of every class, or take a method or reduction that does without.",
    ),
    "one-prediction": Row(
        422,
        "The predictions are all equal",
        "All predictions are equal, so that they tell no more than the share of positives.",
        "Send the model's own probabilities, not its decisions; for a constant model take `accuracy-constant`.",
    ),
    "too-few-rows": Row(
        422,
        "There are too few rows",
        "There are fewer rows, or fewer of one class, than the method, its folds or its bins need.",
        "Send more rows, ask for fewer folds or bins, or take a method with fewer parameters.",
    ),
    "scale-mismatch": Row(
        422,
        "The scale is not the map's",
        "The predictions are on another scale than those on which the map was fitted.",
        "Send probabilities to a map fitted on probabilities, logits to one fitted on logits.",
    ),
    "unknown-measure": Row(
        422,
        "Unknown measure",
        "The catalogue has no measure of this name.",
        "Take a name from `GET /measures`.",
    ),
    "unknown-diagram": Row(
        422,
        "Unknown diagram",
        "The catalogue has no diagram of this name.",
        "Take a name from `GET /diagrams`.",
    ),
    "unknown-method": Row(
        422,
        "Unknown method",
        "The catalogue has no calibrator of this name, or this service lacks what it needs.",
        "Take a name from `GET /methods`.",
    ),
    "unknown-reduction": Row(
        422,
        "Unknown or unfitting reduction",
        "There is no such reduction, or it does not fit the number of classes or the request.",
        "Take `binary` for (n,), and for (n, K) `confidence`, `class:k`, `top:r`, `within-top:r`, `pooled`, "
        "`classwise` or `canonical`.",
    ),
    "invalid-option": Row(
        422,
        "An option is unknown or invalid",
        "An option of a measure, diagram or method is not one of its own, has the wrong type or is outside its range.",
        "Look its options up in `GET /measures`, `GET /diagrams` or `GET /methods`.",
    ),
    "extra-not-installed": Row(
        422,
        "An optional package is missing",
        "The method or the kind of file needs a package that is not installed where the service runs.",
        "Use another method or kind of file, or have the operator install the extra that the detail names.",
    ),
    "invalid-document": Row(
        422,
        "A map document is damaged",
        "The document of a map is damaged, or of a format that this version does not know.",
        "Send the document as the service gave it, unchanged; docs/reference/map-document.md describes it.",
    ),
    "not-converged": Row(
        422,
        "The fit did not converge",
        "The fit has no optimum on these rows, often because the predictions separate the classes perfectly.",
        "Fit on held-out rows, send more of them, or take a method with a penalty.",
    ),
}
