"""Our measures beside what the papers' released code and the libraries answer. Writes docs/benchmarks/agreement.md."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

import calibrant
from calibrant.batch import Scale

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "agreement.md"
GOLDEN = ROOT / "tests" / "golden"

#: What is done to our value before it is compared.
_TRANSFORMS = {"root": lambda x: x**0.5, "square": lambda x: x**2, "half": lambda x: x / 2}


@dataclass(frozen=True)
class Answer:
    """What a reference answered, and how it is asked of us."""

    input: str
    producer: str
    what: str
    reduction: str
    measure: str | dict[str, Any]
    value: float
    field: str = "value"
    transform: str | None = None
    tolerance: float = 1e-9
    note: str | None = None
    scale: Scale = "probability"

    def ours(self) -> float:
        """Our value, as the reference defines it."""
        predictions, labels = inputs(self.input, self.scale)
        asked = {"name": self.measure} if isinstance(self.measure, str) else self.measure
        report = calibrant.evaluate(
            predictions, labels, measures=[asked | {"as": "it"}], reduction=self.reduction, scale=self.scale
        )
        found = report.measures["it"]
        value = float(found.parts[self.field[6:]] if self.field.startswith("parts/") else getattr(found, self.field))
        return value if self.transform is None else float(_TRANSFORMS[self.transform](value))


def answers() -> list[Answer]:
    """Every answer that there is."""
    return [Answer(**entry) for entry in json.loads((GOLDEN / "measures.json").read_text("utf-8"))["answers"]]


@cache
def inputs(name: str, scale: Scale = "probability") -> tuple[Any, Any]:
    """What a reference was given.

    ``binary``, its ``complement``, ``two columns``, ``ten classes``, or of these the ``first 1000`` rows.
    """
    if name.startswith("ten classes"):
        held = np.load(GOLDEN / "ten_classes_n2000.npz")
        rows = slice(1000 if name.endswith("first 1000") else None)
        logits, labels = held["logits"][rows], held["labels"][rows].astype(np.int64)
        return logits if scale == "logit" else softmax(logits, axis=1), labels
    batch = json.loads((GOLDEN / "binary_n1000.json").read_text("utf-8"))
    p, y = np.array(batch["p"]), np.array(batch["y"])
    if name == "complement":
        return 1.0 - p, 1 - y
    return (p if name == "binary" else np.stack([1.0 - p, p], axis=1)), y


def main() -> None:
    lines = [
        "# Agreement with published code",
        "",
        "Every answer of the papers' released code and of libraries that the tests compare ours with, on the inputs",
        "in `tests/golden`. Written by `make agreement`; `tests/unit/measures/test_agreement.py` checks each line.",
        "Tolerance 1e-9 unless a reason is given; transforms (square, root) are undone on our side.",
        "",
        "| reference | what | input, reduction | ours | theirs | difference | why |",
        "|---|---|---|---|---|---|---|",
    ]
    for answer in answers():
        ours = answer.ours()
        what = answer.what.replace("|", "/")
        lines.append(
            f"| {answer.producer} | {what} | {answer.input}, {answer.reduction} | {ours:.9f} | {answer.value:.9f} "
            f"| {ours - answer.value:+.1e} | {answer.note or ''} |"
        )
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
