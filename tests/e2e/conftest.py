"""Releases of the chart that tests of this folder share."""

from __future__ import annotations

import pytest

from tests.chart.programs import Object, rendered
from tests.chart.value_sets import EVERYTHING, VALUE_SETS


@pytest.fixture(scope="module", params=VALUE_SETS)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    """The objects of each set of values."""
    return rendered(VALUE_SETS[request.param], tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    """The objects of a release with every feature."""
    return rendered(EVERYTHING, tmp_path_factory.mktemp("everything"))
