"""What the documents of all maps of classes have in common: how they are read and written."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from calibrant.core.batch import Scale, read_class_names
from calibrant.core.errors import InvalidDocument, InvalidOption
from calibrant.core.results import FORMAT

#: In place of the reduction, in documents of maps to prediction sets.
SETS = "sets"
_DIGEST = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class DocumentHead:
    """What the documents of all maps of classes have, checked."""

    method: str
    family: str
    scale: Scale
    n_classes: int | None
    parameters: dict[str, Any]
    diagnostics: dict[str, Any]
    class_names: tuple[str, ...] | None
    digest: str | None


def read_head(document: Mapping[str, Any], families: Collection[str]) -> DocumentHead:
    """Check the fields of a document of one of these families, but neither its parameters nor its reduction."""
    if document.get("prediction_kind", "classification") != "classification":
        raise InvalidDocument.at("/prediction_kind", "must be classification; load_distribution reads other maps")
    family = document.get("family")
    if not isinstance(family, str) or family not in families:
        raise InvalidDocument.at("/family", f"must be one of: {', '.join(families)}")
    method = document.get("method")
    if not isinstance(method, str) or not method:
        raise InvalidDocument.at("/method", "must be the name of a calibrator")
    scale: Any = document.get("scale")
    if scale not in get_args(Scale):
        raise InvalidDocument.at("/scale", "must be one of: probability, logit")
    n_classes = document.get("n_classes")
    if n_classes is not None and (type(n_classes) is not int or n_classes < 2):
        raise InvalidDocument.at("/n_classes", "must be null or an integer of at least 2")
    digest = read_digest(document)
    parameters, diagnostics = document.get("parameters"), document.get("diagnostics", {})
    for name, value in (("parameters", parameters), ("diagnostics", diagnostics)):
        if not isinstance(value, dict):
            raise InvalidDocument.at(f"/{name}", "must be an object")
    names = document.get("class_names")
    if names is not None:
        names = _read_class_names(names, n_classes or 2)
    return DocumentHead(method, family, scale, n_classes, parameters or {}, diagnostics, names, digest)


def read_digest(document: Mapping[str, Any]) -> str | None:
    """Read the training digest of a document, if it has one."""
    digest = document.get("training_digest")
    if digest is not None and not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        raise InvalidDocument.at("/training_digest", "must be null or 32 hexadecimal digits")
    return digest


def read_document(document: object) -> Mapping[str, Any]:
    """Return a document of this format, or that in a file; raises ``InvalidDocument``."""
    if isinstance(document, str | Path):
        document = read_document_file(Path(document))
    if not isinstance(document, Mapping):
        raise InvalidDocument("must be a path, or the document that map.to_document() returns")
    if type(document.get("format")) is not int or document["format"] != FORMAT:
        raise InvalidDocument.at("/format", f"must be {FORMAT}, as in the documents of map.save(path)")
    return document


def read_document_file(path: Path) -> Any:
    """Read a file of JSON; raises ``InvalidDocument`` for other files."""
    if str(path).lstrip().startswith("{"):
        raise InvalidDocument("must be a path, and this is JSON: pass json.loads(text)")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidDocument("the file is not JSON, as map.save(path) writes it") from error


def _read_class_names(names: object, n_classes: int) -> tuple[str, ...]:
    try:
        return read_class_names(names, n_classes)
    except InvalidOption as error:
        raise InvalidDocument(error.detail, error.offences) from error
