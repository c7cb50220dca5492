from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import fftconvolve

from calibrant.core.density import convolved


@pytest.mark.parametrize(("m", "k"), [(1, 1), (16384, 1), (16384, 301), (16384, 20001), (1000, 998), (7, 9)])
def test_the_convolution_is_that_of_scipy_bit_for_bit(m: int, k: int) -> None:
    random = np.random.default_rng(m + k)
    signal, kernel = random.random(m), random.random(k)
    assert np.array_equal(convolved(signal, kernel), fftconvolve(signal, kernel, mode="same"))
