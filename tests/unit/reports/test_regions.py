from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import calibrant
from calibrant.reports.regions import Region, direction, find_regions, is_shift
from tests.unit.reports.worlds import TRUTHS, draw


def _reliability(p: object, y: object, n_bins: int = 15) -> dict[str, object]:
    requests = [{"name": "reliability", "n_bins": n_bins}]
    points: dict[str, object] = calibrant.evaluate(p, y, measures=["brier"], diagrams=requests).diagrams["reliability"][
        "data"
    ]
    return points


def test_calibrated_predictions_rarely_show_a_region() -> None:
    shown = sum(bool(find_regions(_reliability(*draw("calibrated", 500, seed)))) for seed in range(200))
    # At most 5 % by the law; 21 of 200 would happen with probability 0.001 at 5 %.
    assert shown <= binom.ppf(0.999, 200, 0.05)


@pytest.mark.parametrize("truth", ["overconfident", "underconfident", "shifted", "one-region", "top"])
def test_intervals_hold_the_true_gap_of_every_region(truth: str) -> None:
    for seed in range(20):
        p, y = draw(truth, 4_000, seed)
        for region in find_regions(_reliability(p, y)):
            inside = (p >= region.start) & (p < region.end) if not region.highest else p >= region.start
            gap = float(np.mean(TRUTHS[truth](p[inside]) - p[inside]))
            assert region.low - 1e-9 <= gap <= region.high + 1e-9
            assert region.low <= region.gap <= region.high
            assert not region.low <= 0.0 <= region.high


def test_neighbours_of_one_sign_are_one_region() -> None:
    regions = find_regions(_reliability(*draw("shifted")))
    assert len(regions) == 1
    assert regions[0].lowest
    assert regions[0].gap < 0.0


def test_both_ends_of_overconfidence_are_two_regions_of_opposite_sign() -> None:
    low, high = find_regions(_reliability(*draw("overconfident")))
    assert low.lowest
    assert high.highest
    assert low.gap > 0.0 > high.gap


def test_wrong_certain_predictions_are_a_region() -> None:
    p, y = np.full(400, 0.9999), np.ones(400, dtype=int)
    y[:8] = 0
    (region,) = find_regions(_reliability(p, y))
    assert region.observed_frequency == pytest.approx(0.98)
    assert region.lowest
    assert region.highest


def test_one_unlucky_row_among_certain_ones_is_no_region() -> None:
    p, y = np.full(400, 0.999), np.ones(400, dtype=int)
    y[0] = 0
    assert find_regions(_reliability(p, y)) == ()


def test_both_sides_about_the_middle_are_too_near_to_it_or_too_far() -> None:
    low = Region(0.0, 0.47, True, False, 0.4, 0.3, 0.46, 0.406, 0.092, -0.36, -0.25)
    high = Region(0.53, 1.0, False, True, 0.4, 0.54, 0.7, 0.599, 0.936, 0.28, 0.37)
    assert direction([high, low], "binary").startswith("Underconfident by 33.7 points above 0.53 and by 31.4 points")
    assert not is_shift([high, low], "binary")


def test_errors_of_one_sign_on_both_sides_of_the_middle_are_a_shift_except_of_claims() -> None:
    low = Region(0.0, 0.4, True, False, 0.4, 0.1, 0.4, 0.2, 0.1, -0.15, -0.05)
    high = Region(0.6, 1.0, False, True, 0.4, 0.6, 0.9, 0.8, 0.7, -0.15, -0.05)
    assert is_shift([high, low], "binary")
    assert direction([high, low], "binary").startswith("Too high by 10.0 points above 0.60 and by 10.0 points")
    assert not is_shift([high, low], "confidence")
    assert direction([high], "confidence").startswith("Overconfident")
