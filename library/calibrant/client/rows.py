"""The steps of calls that send rows, of both kinds of predictions, and of what they return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from calibrant.client.answers import BatchRecord, JobAnswer, MapRecord, MapSummary, Mismatch, decode
from calibrant.client.calls.jobs import Progress, wait
from calibrant.client.declared import result
from calibrant.client.errors import unreadable
from calibrant.client.frames import (
    ArrayLike,
    DistributionRows,
    RowArguments,
    by_number,
    needs_names,
    refuse_unknown,
    split_forecasts,
    split_models,
    split_rows,
)
from calibrant.client.requests import T, get, id_of, path_of, read, with_rows
from calibrant.client.retries import Patience, send
from calibrant.client.steps import Answer, Steps
from calibrant.core.arrays import is_frame
from calibrant.core.choices import PictureFormat
from calibrant.core.choices import Theme as Theme

Form: TypeAlias = PictureFormat
#: A name of a catalogue; or names, or mappings with ``name``, options and ``as``.
Requested: TypeAlias = str | Sequence[str | Mapping[str, Any]]

HTML = "text/html"
_MEDIA: Mapping[Form, str] = {"svg": "image/svg+xml", "png": "image/png"}

# --- Requests with rows


def with_class_rows(
    patience: Patience,
    path: str,
    rows: Mapping[str, Any],
    fields: Mapping[str, Any],
    batch: str | BatchRecord | ArrayLike | None = None,
    own_labels: Sequence[Any] = (),
    *,
    accept: str | None = None,
    key: str | None = None,
) -> Steps[Answer]:
    """Send predictions and labels, or ids of stored batches; ``own_labels`` are those of predictions as ``batch``.

    The names of the classes are those of the first map that has them, if rows need names and have none.
    """
    refuse_unknown(rows, [*_arguments(fields), *RowArguments.__annotations__])
    _check_method(fields, 'fit("averaged", predictions, labels)')
    models: Any = None
    if "models" in fields:
        fields, own_labels, models, batch = _compared(fields, batch, own_labels)
    if models is not None and own_labels:
        rows, own_labels = {"labels": own_labels[0], **rows}, ()
    batch = id_of(batch)
    if batch is not None and not (isinstance(batch, str) and not own_labels):
        if len(own_labels) > 1 or "predictions" in rows or (own_labels and "labels" in rows):
            raise TypeError("pass the id of a batch, or predictions and labels")
        rows = {"predictions": batch, **({"labels": own_labels[0]} if own_labels else {}), **rows}
        batch = None
    refs = [map_reference(ref) for ref in (fields.get("map"), *(fields.get("maps") or ()))]
    if models is None:
        arrays, options = split_rows(rows, (yield from class_names_of(patience, refs, rows)))
    else:
        arrays, options = split_models(models, rows)
    named = by_number(fields, options.get("class_names"))
    if path.endswith("/rows"):  # the batch has the names
        options.pop("class_names", None)
    request = with_rows(path, arrays, {"batch": batch, **named, **options}, headers=_headers(accept, key))
    return (yield from send(patience, request))


def with_forecast_rows(
    patience: Patience,
    path: str,
    rows: Mapping[str, Any],
    fields: Mapping[str, Any],
    observed: ArrayLike | BatchRecord | None = None,
    *,
    accept: str | None = None,
    key: str | None = None,
    reads: bool = False,
) -> Steps[Answer]:
    """Send predictive distributions and outcomes, or the id of a stored batch, which may be ``observed``."""
    refuse_unknown(rows, ["observed", "known", *_arguments(fields), *DistributionRows.__annotations__])
    _check_method(fields, 'fit_distribution("averaged", observed, mean=..., std=...)')
    fields = {"prediction_kind": "regression", **fields}
    if isinstance(observed, str | BatchRecord):
        observed, fields = None, {**fields, "batch": observed}
    arrays, options = split_forecasts({"observed": observed, **rows})
    request = with_rows(path, arrays, {**fields, **options}, headers=_headers(accept, key), reads=reads)
    return (yield from send(patience, request))


def _arguments(fields: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments of a call with these fields."""
    return [*fields, "batch", "timeout", "progress", *(["form"] if "theme" in fields else [])]


def _check_method(fields: Mapping[str, Any], call: str) -> None:
    if not isinstance(fields.get("method", ""), str):
        raise TypeError(f"the first argument is the method: {call}")


def _compared(
    fields: Mapping[str, Any], batch: Any, own_labels: Sequence[Any]
) -> tuple[Mapping[str, Any], Sequence[Any], Any, Any]:
    """Return the fields of a comparison or of curves, the labels, the models, and the batch or predictions.

    Models may be the first argument by position, and maps the last one.
    """
    fields = dict(fields)
    models, maps, batches = fields.pop("models"), fields.get("maps") or (), fields.get("batches")
    are_models = isinstance(batch, Mapping) or ("maps" in fields and is_frame(batch))
    if models is None and not maps and len(own_labels) < 2 and are_models:
        models, batch = batch, None
    if own_labels and not maps and (isinstance(batch, str | BatchRecord) or len(own_labels) > 1):
        *own_labels, maps = own_labels
    if isinstance(maps, Mapping):
        raise TypeError("maps must be a list of ids or names; the comparison has these names")
    fields["maps"] = [maps] if isinstance(maps, str | MapSummary) else list(maps) or None
    fields["batches"] = None if batches is None else {name: id_of(stored) for name, stored in batches.items()}
    return fields, own_labels, models, batch


def _headers(accept: str | None, key: str | None) -> dict[str, str]:
    headers = {"Accept": accept, "Idempotency-Key": key}
    return {name: value for name, value in headers.items() if value is not None}


def map_reference(map: Any) -> str | None:
    """Return the id or the name of a map, given as a string or as its record, or None."""
    name: Any = id_of(map)
    if name is None or isinstance(name, str):
        return name
    how = "client.import_map(map, name=...) stores a CalibrationMap"
    raise TypeError(f"map must be the id or the name of a stored map; {how}")


def class_names_of(patience: Patience, refs: Sequence[str | None], rows: Mapping[str, Any]) -> Steps[list[str] | None]:
    """Return the class names of the first of the maps that has them, if rows need names and have none."""
    for ref in refs if needs_names(rows) else ():
        if ref is not None and (names := (yield from _stored_map(patience, ref)).class_names):
            return names
    return None


# --- What these requests return; each waits if it is a job


def result_of(
    patience: Patience,
    sent: Steps[Answer],
    kind: type[T],
    timeout: float | None,
    progress: Progress | None,
) -> Steps[T]:
    """Return the answer to a request, or the result of its job: of an evaluation, the report in it."""
    answer = yield from sent
    if answer.status != 202:
        return read(kind, answer)
    job = yield from wait(patience, read(JobAnswer, answer).id, timeout=timeout, progress=progress)
    try:
        return decode(kind, (job.result or {}).get("report") if job.kind == "evaluate" else job.result)
    except Mismatch as error:
        raise unreadable(answer, error) from error


def html(patience: Patience, sent: Steps[Answer], timeout: float | None, progress: Progress | None) -> Steps[str]:
    """Return a report as one HTML file without scripts and external resources."""
    answer = yield from sent
    if answer.status == 202:
        job = read(JobAnswer, answer)
        yield from wait(patience, job.id, timeout=timeout, progress=progress)
        answer = yield from send(patience, get(path_of("jobs", job.id), accept=HTML))
    if not answer.headers.get("Content-Type", "").startswith(HTML):
        raise unreadable(answer)
    return answer.content.decode()


def picture(
    patience: Patience,
    sent: Steps[Answer],
    form: Form,
    look: Mapping[str, Any],
    timeout: float | None,
    progress: Progress | None,
) -> Steps[bytes]:
    """Return a picture with this look."""
    answer = yield from sent
    if answer.status != 202:
        return answer.content
    job = yield from wait(patience, read(JobAnswer, answer).id, timeout=timeout, progress=progress)
    return (yield from stored_picture(patience, path_of("jobs", job.id, f"diagram.{form}"), form, look))


def stored_picture(patience: Patience, path: str, form: Form, look: Mapping[str, Any]) -> Steps[bytes]:
    """Return a picture of something that is stored."""
    return (yield from send(patience, get(path, look, accept=media_of(form)))).content


def media_of(form: Form) -> str:
    """Return the media type of a format of pictures; raises ``ValueError`` for others."""
    if form not in _MEDIA:
        raise ValueError(f"form must be one of {', '.join(_MEDIA)}")
    return _MEDIA[form]


def fitted(
    patience: Patience, sent: Steps[Answer], timeout: float | None, progress: Progress | None
) -> Steps[MapRecord]:
    """Return the map of a fit."""
    answer = yield from sent
    if answer.status != 202:
        return read(MapRecord, answer)
    job = yield from wait(patience, read(JobAnswer, answer).id, timeout=timeout, progress=progress)
    return (yield from _stored_map(patience, str((job.result or {})["map"])))


def answered(sent: Steps[Answer], kind: type[T]) -> Steps[T]:
    """Return the answer to a request that is never a job."""
    return read(kind, (yield from sent))


def _stored_map(patience: Patience, ref: str) -> Steps[MapRecord]:
    return (yield from result(patience, "GET", path_of("maps", ref), MapRecord))
