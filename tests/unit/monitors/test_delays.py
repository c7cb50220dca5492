from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest

from backend.monitors.outcomes import DELAY_BINS, DELAY_FIELDS, delay_bins, delay_quantiles


def counted(seconds: npt.NDArray[np.float64]) -> Counter[str]:
    return Counter(DELAY_FIELDS[k] for k in delay_bins(seconds).tolist())


def test_each_bin_ends_a_third_further() -> None:
    ends = np.power(4.0 / 3.0, np.arange(DELAY_BINS - 1)).astype(np.float64)
    assert delay_bins(ends).tolist() == list(range(1, DELAY_BINS))
    assert delay_bins(ends * 0.9999).tolist() == list(range(DELAY_BINS - 1))


def test_what_lies_beyond_the_bins_is_in_the_first_and_the_last() -> None:
    assert delay_bins(np.array([-1e9, 0.0, 1e30])).tolist() == [0, 0, DELAY_BINS - 1]


def test_every_delay_is_counted_once() -> None:
    seconds = np.random.default_rng(0).exponential(5000.0, 10_000)
    counts = counted(seconds)
    assert sum(counts.values()) == 10_000
    assert set(counts) <= set(DELAY_FIELDS)


@pytest.mark.parametrize("scale", [2.0, 60.0, 86_400.0])
def test_quantiles_are_within_a_third_of_the_rows_own(scale: float) -> None:
    seconds = np.random.default_rng(1).lognormal(np.log(scale), 1.0, 20_000)
    shares = [0.1, 0.5, 0.9, 0.99]
    quantiles = delay_quantiles(counted(seconds), shares)
    assert quantiles is not None
    own = np.quantile(seconds, shares)
    np.testing.assert_allclose(quantiles, np.where(own < 1.0, 0.0, own), rtol=1.0 / 3.0)


def test_labels_that_come_with_their_predictions_took_no_time() -> None:
    assert delay_quantiles(counted(np.full(100, 1e-3)), [0.5, 0.9, 0.99]) == [0.0, 0.0, 0.0]


def test_no_labels_have_no_delay() -> None:
    assert delay_quantiles({}, [0.5]) is None
