"""What holds of every page: it shuts nobody out, in light or in dark, and nothing of it jumps.

Those of the registry are looked at in test_registry.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from calibrant.client import Calibrant
from service.stack import Stack
from tests.browser.checks import grave_violations, layout_shift
from tests.browser.files import rows
from tests.browser.watched import Visits

pytestmark = pytest.mark.slow

PATHS = {
    "front": "/",
    "report": "/ui/reports/{batch}",
    "before and after": "/ui/reports/{batch}?map={map}",
    "comparison of models": "/ui/reports/{batch}?models={other}",
    "report of forecasts": "/ui/reports/{forecasts}",
    "map of forecasts": "/ui/maps/{forecast_map}",
    "in the order of time": "/ui/in-order",
    "measures of forecasts": "/ui/measures?prediction_kind=regression",
    "jobs": "/ui/jobs",
    "job": "/ui/jobs/{job}",
    "problems": "/problems",
    "problem": "/problems/too-large",
    "refusal": "/ui/jobs/job_0",
}


@pytest.fixture(scope="module")
def stored(service: Stack) -> Mapping[str, str]:
    """A batch, a map and the job that made it."""
    with Calibrant(service.url) as client:
        batch = client.upload(*rows(300)).id
        p, y = rows(300)
        other = client.upload(p**2, y).id
        made = client.fit("pl", batch, name="seen", timeout=600)
        mean, observed = np.arange(300.0), np.arange(300.0) + np.tile([-1.0, 0.5, 2.0], 100)
        given: dict[str, Any] = {"observed": observed, "mean": mean, "variance": np.ones(300)}
        forecasts = client.upload_distribution(**given).id
        scaled = client.fit_distribution("variance-scaling", batch=forecasts).id
        found = {"batch": batch, "map": made.id, "job": made.id.replace("map_", "job_", 1)}
        return found | {"other": other, "forecasts": forecasts, "forecast_map": scaled}


@pytest.mark.parametrize("name", PATHS)
def test_a_page_is_accessible_in_light_and_dark_and_its_layout_does_not_shift(
    visits: Visits, stored: Mapping[str, str], name: str
) -> None:
    visits.expected |= {404} if name == "refusal" else set()
    page = visits.open(color_scheme="light")
    page.goto(PATHS[name].format(**stored))
    assert layout_shift(page) == 0
    assert grave_violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert grave_violations(page, ["color-contrast"]) == []
    assert page.title()
    assert page.get_by_role("heading", level=1).count() == 1
