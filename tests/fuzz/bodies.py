"""Bodies that go deep: rows that fit each other, as JSON and as archives; and archives that do not."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from calibrant.core.options import Option
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.measures.catalogue import MEASURES

#: The variable that holds the ids of a batch of each prediction kind that every fuzzed service holds, as JSON.
BATCH_VARIABLE = "FUZZ_BATCH"
#: A map that every fuzzed service holds: that of the document's examples.
KNOWN_MAP = "fraud-detector"
#: The same for maps of predictive distributions.
KNOWN_DISTRIBUTION_MAP = "wind-speed"
#: The files of a source that every fuzzed service has: those of the document's examples, and their columns.
KNOWN_FILES = {"source": "scores", "path": "2026-11/*.csv"}
_COLUMNS_OF_FILES = ("order", "score", "outcome", "country", "absent")
#: Rows of a body at most, so that fits and tests stay quick.
MOST_ROWS = 60
_CLASSES = 3
#: The arrays of a body with forecasts, and their level.
_OF_FORECASTS = (
    *("observed", "mean", "variance", "std", "quantiles", "levels", "samples", "lower", "upper", "level"),
    *("weights", "groups", "clusters", "by", "times", "known"),
)

#: Scales of forecasts: most are ordinary, the others near the ends of what a double can hold.
_SCALES = (1.0, 1.0, 1.0, 0.0, 5e-324, 1e-300, 1e-160, 1e155, 1e300, 1e307)

_numbers = st.one_of(st.floats(0, 1), st.floats(), st.sampled_from([0.0, 1.0, 0.5, -0.0, 5e-324, 1 - 2**-53, 1.00005]))
#: Shapes that no array has, and shapes of arrays without numbers.
_SHAPES = (
    "(True,)",
    "(False,)",
    "(1, True)",
    "(-1,)",
    "(1.0,)",
    "[1]",
    "1",
    "(2**60,)",
    f"(0, {2**62})",
    f"({2**62}, 0)",
)
_types = st.sampled_from(["<f8", ">f4", "<f2", "<i8", "|u1", "|b1", "<c8"])


def fitting(body: dict[str, Any], batches: dict[str, str]) -> dict[str, Any]:
    """Two in three bodies made to fit: with rows drawn in the place of their own, and references to what exists.

    ``batches`` are the ids of a stored batch of each prediction kind.
    """
    chosen = zlib.crc32(repr(body).encode("utf-8", "replace"))
    if chosen % 3 == 0:
        return body
    if isinstance(body.get("instances"), list):
        return body | {"instances": _rows(np.random.default_rng(chosen))["predictions"]}
    if isinstance(body.get("source"), dict):
        body = body | {"source": _files(body["source"], np.random.default_rng(chosen))}
    kind = "regression" if body.get("prediction_kind") == "regression" else "classification"
    stored = {"batch": batches[kind], "map": KNOWN_MAP}
    fields: dict[str, Any] = body | {name: stored[name] for name in stored if isinstance(body.get(name), str)}
    fields |= {"against": [batches[kind]]} if isinstance(body.get("against"), list) else {}
    if kind == "regression":
        return _forecasts(fields, np.random.default_rng(chosen))
    if not isinstance(body.get("predictions"), list):
        return fields
    random = np.random.default_rng(chosen)
    known: dict[str, Mapping[str, Any]] = {"measures": MEASURES, "diagrams": DIAGRAMS}
    fields |= {
        name: [_with_option(choice, catalogue, random) for choice in _names(fields[name])]
        for name, catalogue in known.items()
        if isinstance(fields.get(name), list)
    }
    rows = _rows(random)
    fitted = {name: rows[name] for name in rows if isinstance(body.get(name), list)}
    if isinstance(fields.get("method"), str) and isinstance(body.get("labels"), list) and chosen % 5 == 0:
        n = len(fitted["predictions"])  # several labels of each row
        p = random.random((n, 3))
        several = {"predictions": p.tolist(), "labels": (random.random((n, 3)) < p).astype(int).tolist()}
        fields, fitted = fields | {"method": "crc"}, {**fitted, **several}
    return {name: column for name, column in fields.items() if name not in ("scale", "classes", "options")} | fitted


def _files(source: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
    """The files of a source that exists, with some of their columns in the place of those that were made up."""
    columns = source.get("columns")
    if isinstance(columns, dict):
        names = [str(name) for name in random.choice(_COLUMNS_OF_FILES, len(columns))]
        columns = {field: name for field, name in zip(columns, names, strict=True) if isinstance(columns[field], str)}
    return source | KNOWN_FILES | {"columns": columns}


def _forecasts(body: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
    """A body of regression with forecasts of one kind; with a batch, its options are made to fit alone."""
    replaced = (*_OF_FORECASTS, "options")
    fields = {name: content for name, content in body.items() if name not in replaced}
    fields |= {name: _names(fields[name]) for name in ("measures", "diagrams") if isinstance(fields.get(name), list)}
    if isinstance(fields.get("map"), str):
        fields["map"] = KNOWN_DISTRIBUTION_MAP
    if "batch" in body:
        return fields
    n = int(random.integers(1, MOST_ROWS))
    scale = float(random.choice(_SCALES))
    centre = scale * random.normal(size=n)
    table = np.sort(centre[:, None] + scale * random.normal(size=(n, 3)), axis=1)
    spread = np.clip(scale * random.gamma(2.0, size=n), 5e-324, None)
    kinds: list[dict[str, Any]] = [
        {"mean": centre.tolist(), "variance": spread.tolist()},
        {"mean": centre.tolist(), "std": spread.tolist()},
        {"quantiles": table.tolist(), "levels": [0.1, 0.5, 0.9]},
        {"samples": table.tolist()},
        {"lower": table[:, 0].tolist(), "upper": table[:, 2].tolist(), "level": 0.8},
    ]
    rows = {
        "observed": (centre + scale * random.normal(size=n)).tolist(),
        "weights": random.integers(0, 4, n).tolist(),
        "groups": random.choice(["a", "b"], n).tolist(),
        "clusters": random.choice(["a", "b", "c"], n).tolist(),
        "by": random.choice(["1", "2"], n).tolist(),
        "times": [str(time) for time in random.permutation(n)],
        "known": [str(time) if random.integers(8) else "" for time in n + random.permutation(n)],
    }
    if isinstance(fields.get("in_order"), dict):
        fields["in_order"] = {"half_life": float(random.choice([1e-9, 0.5, 7.0, 1e9])), "shift": float(random.random())}
    own = {name: rows[name] for name in rows if isinstance(body.get(name), list)}
    return fields | own | kinds[int(random.integers(len(kinds)))]


def _names(asked: list[Any]) -> list[Any]:
    """Measures or diagrams without the options that were made up, each once."""
    names = [choice.get("name") if isinstance(choice, dict) else choice for choice in asked]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _with_option(name: str, catalogue: Mapping[str, Any], random: np.random.Generator) -> Any:
    """The name, or in half of the cases an object with one option of the catalogue, mostly with an accepted value."""
    options = list(catalogue[name].options.items()) if name in catalogue else []
    if not options or random.integers(2):
        return name
    chosen, option = options[int(random.integers(len(options)))]
    return {"name": name, chosen: option_value(option, random)}


def option_value(option: Option, random: np.random.Generator) -> Any:
    """An accepted value of an option, or in a fifth of the cases one that is probably refused."""
    if random.integers(5) == 0:
        return [[], [1, 1], [[1]], "1", 0, -1, 1e300, True, {}, [None], list(range(200))][int(random.integers(11))]
    if option.members:
        return {}
    if option.most:
        several = {str(choice): choice for choice in (_one_value(option, random) for _ in range(random.integers(1, 4)))}
        return list(several.values())[: option.most]
    return _one_value(option, random)


def _one_value(option: Option, random: np.random.Generator) -> Any:
    if option.choices and (random.integers(2) or not (option.real or option.whole)):
        return option.choices[int(random.integers(len(option.choices)))]
    if option.real:
        return float(random.uniform(option.low, min(option.high, option.low + 10.0)))
    return int(random.integers(int(option.low), int(min(option.high, option.low + 10)), endpoint=True))


def _rows(random: np.random.Generator) -> dict[str, list[Any]]:
    n = int(random.integers(1, MOST_ROWS))
    wide = bool(random.integers(2))
    probs = random.dirichlet(np.full(_CLASSES, 0.7), n) if wide else random.beta(0.7, 0.7, n)
    labels = np.array([random.choice(_CLASSES, p=row) for row in probs]) if wide else random.random(n) < probs
    return {
        "predictions": probs.tolist(),
        "labels": labels.astype(int).tolist(),
        "weights": random.integers(0, 4, n).tolist(),
        "groups": random.choice(["a", "b"], n).tolist(),
    }


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    """NPZ archives of arrays mostly of the right names, types and lengths; one in ten breaks off."""
    n = draw(st.integers(0, 12))
    shape = draw(st.sampled_from([(n,), (n, 1), (n, 2), (n, 3), (n, 2, 2), ()]))
    size = int(np.prod(shape))
    with np.errstate(all="ignore"):
        numbers = np.array(draw(st.lists(_numbers, min_size=size, max_size=size))).reshape(shape)
        first = draw(st.sampled_from(["predictions", "predictions", "quantiles", "samples", "mean", "lower"]))
        arrays = {first: numbers.astype(draw(_types))}
        others = ["labels", "weights"] if first == "predictions" else ["observed", "variance", "upper", "levels"]
        for name in draw(st.sets(st.sampled_from(others))):
            whole = draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n))
            arrays[name] = np.array(whole, np.int64).astype(draw(_types))
    if draw(st.booleans()):
        arrays["groups"] = np.array(draw(st.lists(st.text(max_size=3), min_size=n, max_size=n)), "<U3")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", draw(_saved(array)))
    body = file.getvalue()
    return body[: draw(st.integers(0, len(body)))] if draw(st.integers(0, 9)) == 9 else body


#: Columns of tables: those of batches, and those of rows of monitors.
_COLUMNS = (
    *("predictions", "predictions.0", "predictions.1", "labels", "weights", "groups", "observed", "mean", "std"),
    *("id", "prediction", "prediction.0", "prediction.1", "label", "timestamp", "group"),
)


@st.composite
def tables(draw: st.DrawFn, write: Callable[[list[dict[str, Any]]], bytes]) -> bytes:
    """Tables of columns of numbers or texts, some missing, as ``write`` writes rows; one in ten breaks off."""
    n = draw(st.integers(1, 12))
    cells = st.sampled_from([_numbers, st.integers(0, 2), st.text(max_size=3), st.just(None)])
    names = draw(st.lists(st.sampled_from(_COLUMNS), min_size=1, max_size=5, unique=True))
    columns = [draw(st.lists(draw(cells), min_size=n, max_size=n)) for _ in names]
    body = write([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])
    return body[: draw(st.integers(0, len(body)))] if draw(st.integers(0, 9)) == 9 else body


@st.composite
def single_arrays(draw: st.DrawFn) -> bytes:
    """Predictions as NPY."""
    n = draw(st.integers(0, 12))
    with np.errstate(all="ignore"):
        numbers = np.array(draw(st.lists(_numbers, min_size=n, max_size=n))).astype(draw(_types))
    return draw(_saved(numbers))


@st.composite
def _saved(draw: st.DrawFn, array: np.ndarray[Any, Any]) -> bytes:
    """An array as NPY; one in ten headers has another shape."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    body = file.getvalue()
    if draw(st.integers(0, 9)) < 9:
        return body
    end = 10 + int.from_bytes(body[8:10], "little")
    shape = draw(st.sampled_from(_SHAPES))
    text = body[10:end].decode()
    forged = text[: text.index("(")] + shape + "}"
    return body[:10] + forged.ljust(end - 11).encode() + b"\n" + body[end:]
