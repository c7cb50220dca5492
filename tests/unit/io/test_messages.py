"""Every refusal of a text file: its code, its field, its words and what it offers."""

from __future__ import annotations

import gzip
import io
import lzma
import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
import zstandard

from calibrant.io.errors import Field, TabularError
from calibrant.io.files import FileOptions, read_sheet
from tests.packed import npy, npz, parquet, zipped
from tests.unit.io import files

HEAD, TAIL = "label,p\n", "1,0.5\n"

PLAIN = FileOptions()


@dataclass(frozen=True)
class Case:
    """A file, its options, and the refusal; ``words`` stand in the message."""

    content: bytes | str
    code: str
    field: Field
    words: str
    offer: Mapping[str, int | None] | tuple[str, ...] | None = None
    options: FileOptions = PLAIN


def _changed(archive: bytes, *, flags: int = 0, size: int | None = None) -> bytes:
    """An archive of one member with other flags or another size in its list of members."""
    changed, start = bytearray(archive), archive.rindex(b"PK\1\2")
    changed[start + 8] |= flags
    if size is not None:
        changed[start + 24 : start + 28] = size.to_bytes(4, "little")
    return bytes(changed)


ROWS = np.array([[0.25, 0.75], [0.5, 0.5]])
LABELS = np.array([0, 1])
YES = {"no": 0, "yes": 1}

CASES = {
    # What the file is.
    "empty": Case("", "empty-file", "file", "the file is empty"),
    "blanks": Case("\ufeff \r\n\n", "empty-file", "file", "the file is empty"),
    "header only": Case(HEAD, "empty-file", "file", "has a header ('label', 'p') but no rows"),
    "png": Case(
        b"\x89PNG\r\n\x1a\n\0\0\0",
        "wrong-kind-of-file",
        "file",
        "'preds.csv' is a PNG image. Supported formats are CSV",
    ),
    "jpeg": Case(b"\xff\xd8\xff\xe0", "wrong-kind-of-file", "file", "is a JPEG image"),
    "pdf": Case(b"%PDF-1.7", "wrong-kind-of-file", "file", "is a PDF document"),
    "tar": Case(b"a.csv" + bytes(252) + b"ustar\x0000", "wrong-kind-of-file", "file", "is a tar archive: extract it"),
    "lzma": Case(lzma.compress(b"p", lzma.FORMAT_ALONE), "wrong-kind-of-file", "file", "compress it with xz"),
    "html": Case("\n<!DOCTYPE html><html>", "wrong-kind-of-file", "file", "is an HTML or XML page"),
    "json": Case("[1, 2]", "wrong-kind-of-file", "file", "JSON without a table of rows or columns; save JSON Lines"),
    "json of a text": Case('{\n"model": "a"\n}', "wrong-kind-of-file", "file", "orient='records', lines=True"),
    "cut json": Case('[{"p": 0.5}, {"p"', "damaged-file", "file", "neither a JSON document nor JSON Lines"),
    "json of no rows": Case("[]", "empty-file", "file", "has no rows"),
    "json with a key twice": Case('[{"p": 0.5, "p": 0.25}]', "duplicate-columns", "file", "has the key 'p' twice"),
    "nested json": Case("[" * 100_000, "damaged-file", "file", "neither a JSON document"),
    "long json": Case("[" + " " * (8 << 20) + "]", "wrong-kind-of-file", "file", "more than 8 MiB; save JSON Lines"),
    "long json of columns": Case(
        '{"y":{' + ",".join(f'"{i}":1' for i in range(200_000)) + "}}", "wrong-kind-of-file", "file", "lines=True"
    ),
    "pickle": Case(pickle.dumps([1]), "wrong-kind-of-file", "file", "a Python pickle, which is never loaded"),
    "old excel": Case(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "wrong-kind-of-file", "file", "old Excel"),
    "excel": Case(zipped({"xl/workbook.xml": b""}), "damaged-file", "file", "the Excel workbook is damaged"),
    "binary excel": Case(zipped({"xl/workbook.bin": b""}), "wrong-kind-of-file", "file", "a binary Excel workbook"),
    "word": Case(zipped({"[Content_Types].xml": b""}), "wrong-kind-of-file", "file", "an Office document"),
    "torch": Case(zipped({"a/data.pkl": b""}), "wrong-kind-of-file", "file", "with pickles, which are never loaded"),
    "zip of two": Case(
        zipped({"a.csv": b"p", "b.csv": b"p"}), "wrong-kind-of-file", "file", "a ZIP archive of 2 files: extract it"
    ),
    "zip of a folder": Case(zipped({"a/": b""}), "wrong-kind-of-file", "file", "a ZIP archive of 0 files"),
    "zip of an image": Case(zipped({"a.png": b"\x89PNG\r\n\x1a\n"}), "wrong-kind-of-file", "file", "is a PNG image"),
    "zip of a zip": Case(zipped({"b": zipped({"a.csv": b"p"})}), "wrong-kind-of-file", "file", "compressed twice"),
    "cut zip": Case(zipped({"a.csv": b"p"})[:-9], "damaged-file", "file", "ZIP file is damaged or truncated"),
    "changed zip": Case(
        zipped({"a.csv": b"p,label"}).replace(b"p,label", b"p,lapel"), "damaged-file", "file", "ZIP file is damaged"
    ),
    "zip with bzip2": Case(
        zipped({"a.csv": b"p" * 99}, zipfile.ZIP_BZIP2), "damaged-file", "file", "compression method is not deflate"
    ),
    "encrypted zip": Case(
        _changed(zipped({"a.csv": b"p,label"}), flags=1), "damaged-file", "file", "the archive is encrypted, or its"
    ),
    "zip that states too few bytes": Case(
        _changed(zipped({"a.csv": b"p,label"}), size=3), "damaged-file", "file", "ZIP file is damaged or truncated"
    ),
    "zip that states more bytes than may be read": Case(
        _changed(zipped({"a.csv": b"p,label"}), size=3 << 30), "file-too-large", "file", "more than the limit of"
    ),
    "cut xz": Case(lzma.compress(b"p" * 99)[:-9], "damaged-file", "file", "the xz file is damaged or truncated"),
    "xz with a large window": Case(
        lzma.compress(b"p", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 28}]),
        "file-too-large",
        "file",
        "the xz data has a dictionary or window of more than 128 MiB; compress the file with a smaller one",
    ),
    "bzip2": Case(b"BZh91AY", "damaged-file", "file", "the bzip2 file is damaged or truncated"),
    "packed twice": Case(gzip.compress(gzip.compress(b"p")), "wrong-kind-of-file", "file", "is compressed twice"),
    "packed image": Case(gzip.compress(b"\x89PNG\r\n\x1a\n"), "wrong-kind-of-file", "file", "is a PNG image"),
    "cut gzip": Case(gzip.compress(b"p" * 99)[:-9], "damaged-file", "file", "the gzip file is damaged or truncated"),
    "bad zstd": Case(
        zstandard.compress(b"p" * 99)[:9] + b"\xff" * 9, "damaged-file", "file", "the Zstandard file is damaged"
    ),
    "nul bytes": Case(b"label,p\n1,0.5\0\n", "wrong-kind-of-file", "file", "has NUL bytes"),
    "utf-16 unmarked": Case("label,p\n1,0.5".encode("utf-16-le"), "wrong-kind-of-file", "file", "UTF-16 without a"),
    "utf-16 cut": Case("label,p\n1,0.5".encode("utf-16")[:-1], "not-utf-8", "file", "save it as UTF-8"),
    "latin-1 header": Case("label,p,é\n1,0.5,x".encode("latin-1"), "not-utf-8", "file", "the header is not UTF-8 (per"),
    "latin-1 label": Case("label,p\né,0.5".encode("latin-1"), "not-utf-8", "file", "of column 'label' is not UTF-8"),
    "long line": Case(f"label,p,{'x' * 1_100_000}\n1,0,0", "file-too-large", "file", "1,048,576 characters"),
    "many columns": Case(",".join(f"c{i}" for i in range(10_001)), "file-too-large", "file", "10,000 columns"),
    "many rows": Case(HEAD + TAIL * 100_001, "file-too-large", "file", "more than the limit of 100,000 rows"),
    # How the table is written.
    "no header": Case("1,0.5\n0,0.2\n", "no-header", "file", "add a header line such as 'label,p'"),
    "no header, classes": Case("0,1\n1,0.5\n", "no-header", "file", "the first line has numbers"),
    "duplicate": Case("p,label,p\n1,1,1\n", "duplicate-columns", "file", "has 'p' more than once"),
    "title": Case("Scores of May\n\n" + HEAD + TAIL, "ragged-row", "file", "a title above the header, remove it"),
    "short row": Case(HEAD + TAIL + "1\n", "ragged-row", "file", "row 2 (line 3) has 1 cell, but the header has 2"),
    "decimal comma": Case(
        HEAD + "1,0,5\n", "ragged-row", "file", "row 1 (line 2) has 3 cells, but the header has 2; if"
    ),
    "late long row": Case(HEAD + TAIL * 5000 + "1,2,3", "ragged-row", "file", "row 5001 (line 5002) has 3 cells"),
    "open quote": Case(
        HEAD + TAIL + '1,"0.5\n1,0.5\n', "unclosed-quote", "file", "a quotation mark in or before line 4"
    ),
    "text after quote": Case(HEAD + '1,"0.5"x\n', "unclosed-quote", "file", "in or before line 2"),
    "semicolons and commas": Case(
        "label;p\n1;0,5\n", "decimal-comma", "predictions", "first in row 1 (line 2); write 0.5"
    ),
    "thousands or comma": Case(
        "label,p,weight\n" + '1,1,"1,200"\n',
        "decimal-comma",
        "weights",
        "separators of thousands or decimal commas",
        options=FileOptions(weights="weight"),
    ),
    "thousands or comma beside points": Case(
        "label,p,weight\n" + '1,0.5,"1,200"\n',
        "not-a-number",
        "weights",
        "beside decimal points; write 1200 or 1.2, not 1,200",
        options=FileOptions(weights="weight"),
    ),
    "quoted comma": Case(HEAD + '1,"0,5"\n', "decimal-comma", "predictions", "column 'p' has decimal commas"),
    # Cells.
    "header again": Case(
        HEAD + TAIL + HEAD + TAIL, "not-a-number", "predictions", "row 2 (line 3) of column 'p' repeats the header"
    ),
    "empty cell": Case(
        HEAD + "1,\n", "missing-value", "predictions", "row 1 (line 2) of column 'p' is empty; fill it in"
    ),
    "NA": Case(
        HEAD + TAIL * 3000 + "1,NA\n",
        "missing-value",
        "predictions",
        "row 3001 (line 3002) of column 'p' is 'NA', a missing value",
    ),
    "NaN": Case(HEAD + TAIL + "\n1,NaN\n", "missing-value", "predictions", "is 'NaN', a missing value"),
    "empty label": Case(HEAD + TAIL + ",0.5\n", "missing-value", "labels", "row 2 of"),
    "label NaN": Case(HEAD + TAIL + "nan,0.5\n", "missing-value", "labels", "'label' is 'nan', a missing value"),
    "empty weight": Case(
        "label,p,w\n1,0.5,\n",
        "missing-value",
        "weights",
        "of column 'w' is empty",
        options=FileOptions(weights="w"),
    ),
    "infinite": Case(HEAD + TAIL + "1,-inf\n", "not-finite", "predictions", "row 2 (line 3) of column 'p' is infinite"),
    "text": Case(
        HEAD + TAIL + "1,secret\n", "not-a-number", "predictions", "row 2 (line 3) of column 'p' is not a number"
    ),
    "underscore": Case(HEAD + TAIL + "1,0.1_0\n", "not-a-number", "predictions", "is not a number"),
    # Columns.
    "one column": Case("label:p\n1:0.5\n", "no-predictions", "predictions", "has only one column, 'label:p'", ()),
    "no predictions": Case("label,a,b\n1,0.2,x\n", "no-predictions", "predictions", "or choose one of 'a'", ("a",)),
    "predictions of ids": Case(
        "label,a,id\n1,2,0.5\n", "no-predictions", "predictions", "(no other column has numbers in [0, 1])", ()
    ),
    "class 0 alone": Case("label,prob_0\n1,0.5\n", "no-predictions", "predictions", "choose one of", ("prob_0",)),
    "two predictions": Case("y,p,score\n1,1,1\n", "unclear-columns", "predictions", "'p', 'score'", ("p", "score")),
    "negative gap": Case(
        "y,p_-1,p_0,p_1\n2,0,0,1\n", "unclear-columns", "predictions", "but the column of class 2 is missing"
    ),
    "gap": Case("y,p0,p2\n1,0,1\n", "unclear-columns", "predictions", "but the column of class 1 is missing"),
    "order of the names": Case(
        "label,prob_dog,prob_cat\n1,0.9,0.1\n0,0.2,0.8\n", "unclear-order", "predictions", "in the order of the file or"
    ),
    "no labels": Case("p\n0.5\n", "no-labels", "labels", "name it 'label' (the file has no other column)", ()),
    "labels of fractions": Case("a,p\n0.3,0.5\n", "no-labels", "labels", "(no other column can be labels)", ()),
    "two labels": Case(
        "y,target,p\n1,1,1\n", "unclear-columns", "labels", "'y', 'target'; choose one", ("y", "target")
    ),
    "two likely labels": Case("a,b,p\n1,1,1\n", "unclear-columns", "labels", "'a', 'b'; choose one", ("a", "b")),
    "unknown": Case(
        HEAD + TAIL,
        "unknown-column",
        "labels",
        "no column 'z'; it has 'label'",
        ("label", "p"),
        FileOptions(labels="z"),
    ),
    "twice asked": Case(
        HEAD + TAIL, "unclear-columns", "predictions", "cannot be used for both", None, FileOptions(("p",), labels="p")
    ),
    "asked as both": Case(
        HEAD + TAIL,
        "unclear-columns",
        "groups",
        "for both labels and groups",
        None,
        FileOptions(labels="p", groups=("p",)),
    ),
    # Features.
    "numbers among texts": Case(
        "label,p,floor\n1,0.5,ground\n0,0.4,2.0\n",
        "mixed-feature",
        "categorical",
        "in row 2, '2.0': as text the category is '2.0', but in a file with numbers alone it is '2'",
        None,
        FileOptions(features=("floor",)),
    ),
    # The scale.
    "percent": Case(
        HEAD + "1,50.5\n0,2\n",
        "looks-like-percent",
        "scale",
        "they look like percentages; if so, set the scale to percent",
        ("percent",),
    ),
    "predicted classes": Case(HEAD + "1,7\n", "looks-like-percent", "scale", "or predicted classes", ("percent",)),
    "percent sign": Case(
        HEAD + "1,50%\n", "looks-like-percent", "scale", "has percent signs, first in row 1 (line 2)", ("percent",)
    ),
    "case": Case(
        HEAD + "yes,1\nYes,1\nno,1\n", "not-labels", "labels", "'Yes', 'yes' differ only in case, write them alike"
    ),
    "percent sign of an inferred column": Case(
        "y,PD\n1,50%\n0,1 %\n",
        "looks-like-percent",
        "scale",
        "has percent signs, first in row 1; set the scale to percent",
        ("percent",),
    ),
    "percent rows": Case(
        "y,p0,p1\n1,40,60\n", "looks-like-percent", "scale", "columns 'p0' and 'p1' are above 1", ("percent",)
    ),
    "logits": Case(HEAD + "1,-2\n", "looks-like-logits", "scale", "are logits, set the scale to logit", ("logit",)),
    "logit rows": Case("y,p0,p1\n1,4,7\n", "out-of-range", "predictions", "if they are logits, set the scale to logit"),
    "large": Case(HEAD + TAIL + "1,101\n", "out-of-range", "predictions", "in 1 of 2 rows, first in row 2"),
    "a few above 1": Case(
        "label,p\n1,0.1\n0,0.8\n1,1.5\n0,0.2\n", "out-of-range", "predictions", "in 1 of 4 rows, first in row 3"
    ),
    "to be logits": Case(
        "y,logit\n1,0.2\n", "looks-like-logits", "scale", "column 'logit' seems to be logits", ("logit",)
    ),
    "all called logits": Case(
        "y,logit_0,logit_1\n1,0,1\n", "looks-like-logits", "scale", "seem to be logits", ("logit",)
    ),
    # Labels.
    "words": Case(HEAD + "yes,1\nno,1\n", "labels-need-mapping", "mapping", "such as 'no' = 0, 'yes' = 1", YES),
    "ham": Case(
        HEAD + "spam,1\nham,1\n", "labels-need-mapping", "mapping", "'ham', 'spam'", {"ham": None, "spam": None}
    ),
    "event of no column": Case("y,prob_0\nspam,1\nham,1\n", "no-predictions", "predictions", "", ()),
    "signs": Case(HEAD + "-1,1\n1,1\n", "labels-need-mapping", "mapping", "'-1' = 0, '1' = 1", {"-1": 0, "1": 1}),
    "from 1": Case("y,p0,p1,p2\n1,1,0,0\n3,0,0,1\n", "labels-need-mapping", "mapping", "", {"1": 0, "2": 1, "3": 2}),
    "one word": Case(
        HEAD + "yes,1\n",
        "labels-need-mapping",
        "mapping",
        "the labels are 'yes'; map each of them to a class",
        {"yes": None},
    ),
    "classes": Case(
        "y,p0,p1\na,1,0\nb,0,1\n", "labels-need-mapping", "mapping", "or name the columns", {"a": None, "b": None}
    ),
    "three words": Case(
        HEAD + "a,1\nb,1\nc,1\n", "not-labels", "labels", "has 3 distinct labels, but the predictions have 2 classes"
    ),
    "too large": Case(
        "y,p0,p1,p2\n7,1,0,0\n", "not-labels", "labels", "is not one of the classes 0 to 2 of the predictions"
    ),
    "fractions": Case(HEAD + "0.37,1\n", "not-labels", "labels", "has fractions, which cannot be labels"),
    "mixed": Case(HEAD + "1,1\nmaybe,1\n", "not-labels", "labels", "mixes numbers and strings: row 2"),
    "ids": Case(
        HEAD + "".join(f"u{i},1\n" for i in range(20_001)), "not-labels", "labels", "more than 20,000 distinct"
    ),
    "long label": Case(HEAD + "x" * 300 + ",1\n", "not-labels", "labels", "a value of more than 256 characters"),
    "unmapped": Case(
        HEAD + "yes,1\nno,1\n",
        "unmapped-label",
        "mapping",
        "'no', first in row 2 of column 'label', has no class in the mapping",
        None,
        FileOptions(mapping={"yes": 1}),
    ),
    "bad mapping": Case(
        HEAD + TAIL, "bad-mapping", "mapping", "an integer from 0 to 1", None, FileOptions(mapping={"1": 2})
    ),
    "too many groups": Case(
        "y,p,group\n" + "".join(f"1,1,g{i}\n" for i in range(1001)),
        "too-many-groups",
        "groups",
        "more than 1,000 distinct",
    ),
    # Arrays.
    "objects": Case(npz(labels=LABELS, probs=np.array([None, 1])), "pickled-objects", "file", "'probs' has Python obj"),
    "array of records": Case(npz(y=LABELS, p=np.zeros(2, dtype="f8,f8")), "pickled-objects", "file", "never loaded"),
    "records of objects": Case(npy(np.zeros(2, dtype="f8,O")), "pickled-objects", "file", "never loaded"),
    "record of records": Case(
        npy(np.zeros(2, dtype=[("y", "i8"), ("p", "f8,f8")])), "not-a-number", "predictions", "an unsupported type"
    ),
    "cut records": Case(npy(np.zeros(2, dtype="f8,f8"))[:-1], "damaged-file", "file", "does not match its size"),
    "records of surrogates": Case(
        npy(np.array([("ab", 0.5)], dtype="U2,f8")).replace(b"a\0\0\0b", b"\0\xd8\0\0b"),
        "damaged-file",
        "file",
        "Unicode",
    ),
    "one array": Case(npy(ROWS), "no-labels", "labels", "an NPY file has only predictions", ()),
    "logits array": Case(npz(labels=LABELS, logits=ROWS), "looks-like-logits", "scale", "to be logits", ("logit",)),
    "nan in array": Case(npz(y=LABELS, p=np.array([0, np.nan])), "missing-value", "predictions", "row 2"),
    "infinity in array": Case(npz(y=LABELS, p=np.array([0, np.inf])), "not-finite", "predictions", "row 2"),
    "texts as numbers": Case(npz(y=LABELS, p=np.array(["a", "b"])), "no-predictions", "predictions", "", ()),
    "complex": Case(npz(y=LABELS, p=np.array([1j, 1])), "not-a-number", "predictions", "'p' has complex numbers"),
    "cube": Case(npz(y=LABELS, p=np.zeros((2, 2, 2))), "wrong-shape", "predictions", "has the shape (2, 2, 2)"),
    "one-hot": Case(
        npz(y=np.eye(2, dtype=int), probs=ROWS), "not-labels", "labels", "for one-hot rows, take the argmax"
    ),
    "unlike columns": Case(
        npz(y=LABELS, a=ROWS, b=LABELS),
        "wrong-shape",
        "predictions",
        "one number per row",
        None,
        FileOptions(("a", "b")),
    ),
    "lengths": Case(
        npz(y=np.array([0]), probs=ROWS), "wrong-shape", "file", "labels has length 1, but predictions has length 2"
    ),
    "cut npz": Case(npz(y=LABELS, probs=ROWS)[:-30], "damaged-file", "file", "damaged or truncated"),
    "cut npy": Case(npy(ROWS)[:-1], "damaged-file", "file", "a shape that does not match its size"),
    "lying shape": Case(
        zipped({"p.npy": npy(ROWS)[:-8], "y.npy": npy(LABELS)}), "damaged-file", "file", "does not match"
    ),
    "cut parquet": Case(b"PAR1" + b"\0" * 20, "damaged-file", "file", "not a Parquet file, or it is truncated"),
    "arrow names": Case(
        files.ALL["arrow stream"].replace(b"weight", b"\x80eight"),
        "damaged-file",
        "file",
        "the Parquet or Arrow file is damaged",
    ),
    "empty in parquet": Case(
        parquet({"y": [0, 1, 1], "p": [0.5, None, None]}),
        "missing-value",
        "predictions",
        "values are missing in 2 rows of column 'p', first in row 2; fill them in or remove the rows",
    ),
    "cut arrow": Case(b"ARROW1\0\0" + b"\xff" * 9, "damaged-file", "file", "damaged"),
}


def refusal_of(case: Case) -> TabularError:
    """What a file is refused for."""
    content = case.content.encode() if isinstance(case.content, str) else case.content
    # One array alone has no labels, which is another refusal than those of the array.
    labelled = case.code not in ("pickled-objects", "damaged-file") or not content.startswith(b"\x93NUMPY")
    with pytest.raises(TabularError) as refused:
        read_sheet(io.BytesIO(content), name="preds.csv", options=case.options, max_rows=100_000, labelled=labelled)
    return refused.value


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_refusal_names_the_fault_and_its_place(case: Case) -> None:
    error = refusal_of(case)
    assert (error.code, error.field) == (case.code, case.field), error.detail
    assert case.words in error.detail
    assert error.offer == case.offer
    assert str(error) == error.detail
