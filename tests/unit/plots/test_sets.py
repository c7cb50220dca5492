"""Pictures of prediction sets: what they show, for ordinary and for extreme evaluations."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import calibrant
from calibrant import SetEvaluation
from calibrant.core.errors import CalibrationError
from calibrant.diagrams.sets import SET_DIAGRAMS, set_coverage, set_sizes
from calibrant.plots.canvas import InvalidPicture, UnknownPicture
from calibrant.plots.sets import draw_sets


def _evaluated(n_classes: int = 12, n: int = 500, alpha: float | None = 0.1) -> SetEvaluation:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, n_classes, n)
    members = rng.random((n, n_classes)) < 1.5 / n_classes
    members[np.arange(n), labels] = rng.random(n) < 0.9
    return calibrant.evaluate_sets(members, labels, alpha=alpha, groups=np.where(labels % 2, "<b>&", "even"))


def test_the_data_of_a_diagram_are_those_of_the_evaluation() -> None:
    evaluation = _evaluated()
    coverage = set_coverage(evaluation)
    assert coverage.names[0] == "all rows"
    assert (coverage.coverage[0], coverage.low[0], coverage.nominal) == (evaluation.coverage, evaluation.low, 0.9)
    of_group = dict(zip(coverage.names, coverage.coverage, strict=True))
    assert of_group["group even"] == next(row.coverage for row in evaluation.by_group if row.name == "even")
    assert sum(name.startswith("class ") for name in coverage.names) == 10
    sizes = set_sizes(evaluation)
    assert sizes.share.sum() == pytest.approx(1.0)
    assert sizes.sizes @ sizes.share == pytest.approx(evaluation.mean_size)
    assert set_coverage(_evaluated(alpha=None)).nominal is None
    assert set(coverage.to_document()) == {"names", "coverage", "low", "high", "n", "nominal"}


@pytest.mark.parametrize("diagram", SET_DIAGRAMS)
@pytest.mark.parametrize("form", ["svg", "png"])
def test_a_picture_has_its_numbers_in_the_alternative_text(diagram: str, form: str) -> None:
    drawn = draw_sets(_evaluated(), diagram, name="\x00<script>", form=form)  # type: ignore[arg-type]
    assert "500 rows of prediction sets" in drawn.alt
    if form == "svg":
        text = drawn.content.decode()
        ElementTree.fromstring(text)
        assert "<script>" not in text
    else:
        assert drawn.content.startswith(b"\x89PNG")


@pytest.mark.parametrize("diagram", SET_DIAGRAMS)
@pytest.mark.parametrize(
    ("members", "labels"),
    [
        (np.zeros((3, 2), bool), [0, 1, 1]),
        (np.ones((1, 2), bool), [1]),
        (np.ones((2, 3000), bool), [5, 2999]),
        (np.eye(40, dtype=bool), np.arange(40)),
    ],
)
def test_extreme_sets_are_drawn(diagram: str, members: np.ndarray, labels: list[int]) -> None:
    evaluation = calibrant.evaluate_sets(members, labels)
    ElementTree.fromstring(draw_sets(evaluation, diagram).content.decode())
    assert evaluation.plot(diagram).get_xlabel() in ("coverage", "classes in the set")  # type: ignore[arg-type]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(UnknownPicture):
        draw_sets(_evaluated(), "reliability")
    with pytest.raises(InvalidPicture):
        draw_sets(_evaluated(), "set-sizes", width=10)
    with pytest.raises(CalibrationError, match="set-sizes"):
        _evaluated().plot("set-size")  # type: ignore[arg-type]


def test_axes_show_the_nominal_coverage_and_the_names() -> None:
    ax = _evaluated().plot()
    assert ax.get_yticklabels()[0].get_text() == "all rows"
    assert any(list(line.get_xdata()) == [0.9, 0.9] for line in ax.get_lines())
