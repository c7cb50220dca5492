"""Laws of reading files: no content raises anything but a refusal, and both readers of text agree."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.io.csv import layout_of, read_fast, read_plain
from calibrant.io.errors import TabularError
from calibrant.io.files import FileOptions, read_sheet
from calibrant.io.limits import FileLimits
from calibrant.io.table import ColumnPlaces, Values
from tests.drawn import examples
from tests.known import known
from tests.traced import PeakOf
from tests.unit.io import files

#: What a small file may take at once: a block of text and a few of its size.
MEMORY = 24 << 20

CELLS = st.one_of(
    st.sampled_from(
        ["0", "1", "0.5", "0,5", "NA", "", "inf", "1e400", "50%", "yes", " 1 ", '"', '"a"', "1_0", "\u0661", "\0"]
    ),
    st.floats().map(repr),
    st.text(max_size=6),
)
TABLES = st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=12)
HEADERS = st.lists(
    st.sampled_from(["label", "p", "prob_0", "prob_1", "w", "group", "", "x", "yes", "0", "1"]), max_size=5
)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """Text that is nearly a table."""
    separator = draw(st.sampled_from([",", ";", "\t", "|"]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    lines = [draw(HEADERS), *draw(TABLES)]
    return end.join(separator.join(line) for line in lines).encode(
        draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
    )


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=3))
NAMES = st.sampled_from(["label", "p", "prob_0", "prob_1", "columns", "data", "0", "1", "x"])


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """A JSON document that is nearly a table of rows or of columns."""
    rows = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), max_size=6)
    columns = st.dictionaries(NAMES, st.lists(VALUES, max_size=6), max_size=4)
    parts = st.recursive(
        st.one_of(VALUES, rows, columns),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
        max_leaves=12,
    )
    return json.dumps(draw(parts)).encode()


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A good file of any kind, some bytes of it changed, and perhaps cut off."""
    content = bytearray(draw(st.sampled_from(list(files.ALL.values()))))
    for _ in range(draw(st.integers(0, 8))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(len(content) // 2, len(content)))] if draw(st.booleans()) else content)


def check(content: bytes, options: FileOptions, *, labelled: bool) -> None:
    """Read a file; a sheet must hold what it promises."""
    try:
        sheet = read_sheet(io.BytesIO(content), name="a", options=options, max_rows=1000, labelled=labelled)
    except TabularError as error:
        assert error.detail.isprintable()  # noqa: PT017
        assert len(error.detail) < 1000  # noqa: PT017
        return
    n_classes = 2 if sheet.predictions.ndim == 1 else sheet.predictions.shape[1]
    assert 0 < len(sheet) <= 1000
    assert np.isfinite(sheet.predictions).all()
    for column in (sheet.labels, sheet.weights, sheet.groups):
        assert column is None or len(column) == len(sheet)
    assert sheet.labels is None or ((sheet.labels >= 0) & (sheet.labels < n_classes)).all()
    assert sheet.classes is None or len(sheet.classes) == n_classes


@pytest.mark.slow
@settings(max_examples=examples(120, 6000))
@given(
    content=st.one_of(st.binary(max_size=200), tables(), documents(), mutations()),
    options=st.sampled_from(
        [
            FileOptions(),
            FileOptions(scale="logit"),
            FileOptions(mapping={"yes": 1, "no": 0}),
            FileOptions(("p",), labels="x"),
        ]
    ),
    labelled=st.booleans(),
)
def test_any_content_of_a_file_is_read_or_refused(
    peak_of: PeakOf, content: bytes, options: FileOptions, labelled: bool
) -> None:
    assert peak_of(check, content, options, labelled=labelled) < MEMORY


def same(a: Values, b: Values) -> bool:
    """Whether two readers found the same numbers and the same texts in every row."""
    texts = [
        [coded.texts[code] for code in coded.codes.tolist()]
        for coded in (known(a.text("labels")), known(b.text("labels")))
    ]
    return bool(np.array_equal(a.numbers["predictions"], b.numbers["predictions"]) and texts[0] == texts[1])


@pytest.mark.slow
@settings(max_examples=examples(120, 6000))
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8), end=st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_pyarrow_gives_what_the_standard_library_gives_or_leaves_it_to_it(
    rows: list[tuple[str, str]], end: str
) -> None:
    file = io.BytesIO(f"label,p{end}{end.join(f'{label},{p}' for label, p in rows)}".encode("utf-8", "replace"))
    places, bounds = ColumnPlaces.of({"predictions": 1, "labels": 0}), FileLimits()
    try:
        layout = layout_of(file, bounds)
        fast = read_fast(file, layout, places, bounds)
    except TabularError:
        return
    if fast is not None:
        assert same(fast, read_plain(file, layout, places, bounds))
