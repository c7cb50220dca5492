from __future__ import annotations

from typing import Any

import pytest

from calibrant.core.errors import CalibrationError, InvalidOption, UnknownMeasure
from calibrant.measures.catalogue import read_requests


def test_the_panel_is_the_default_of_a_request() -> None:
    assert [r.key for r in read_requests(None)] == ["ece", "ece-equal-width", "ece-sweep", "ks"]


@pytest.mark.parametrize(
    ("measures", "error", "pointer"),
    [
        (["nope"], UnknownMeasure, "/measures/0"),
        (["ks", {"name": "nope"}], UnknownMeasure, "/measures/1"),
        ([{"name": "ece", "n_bins": 0}], InvalidOption, "/measures/0/n_bins"),
        ([{"name": "ece", "n_bins": True}], InvalidOption, "/measures/0/n_bins"),
        ([{"name": "ece", "n_bins": 2.0}], InvalidOption, "/measures/0/n_bins"),
        ([{"name": "ece", "norm": 3}], InvalidOption, "/measures/0/norm"),
        ([{"name": "ece", "norm": True}], InvalidOption, "/measures/0/norm"),
        ([{"name": "ece", "binning": "wide"}], InvalidOption, "/measures/0/binning"),
        ([{"name": "ks", "norm": 1}], InvalidOption, "/measures/0"),
        ([{"name": "ks", "as": ""}], InvalidOption, "/measures/0/as"),
        (["ks", "ks"], InvalidOption, "/measures/1"),
        ([{}], InvalidOption, "/measures/0"),
        ([3], InvalidOption, "/measures/0"),
        ([], InvalidOption, "/measures"),
        (b"ece", InvalidOption, "/measures"),
    ],
)
def test_an_invalid_request_is_refused_at_its_place(measures: Any, error: type[CalibrationError], pointer: str) -> None:
    with pytest.raises(error) as caught:
        read_requests(measures)
    assert caught.value.offences[0].pointer == pointer
