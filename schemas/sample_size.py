"""``GET /sample-size``."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from schemas.base import Document


class SampleSizeQuery(Document):
    """The expected predictions in one of three forms, and the widths of the intervals."""

    prevalence: float | None = Field(
        None, gt=0, lt=1, description="expected fraction of events alone; there is then no result for the slope"
    )
    logit_mean: float | None = Field(None, description="mean of normal log-odds of the predictions, with ``logit_sd``")
    logit_sd: float | None = Field(None, gt=0, description="standard deviation of these log-odds")
    beta_a: float | None = Field(
        None, gt=0, description="first parameter of a beta distribution of the predictions, with ``beta_b``"
    )
    beta_b: float | None = Field(None, gt=0, description="second parameter of this distribution")
    oe_width: float = Field(0.2, ge=1e-6, description="width of the interval of O/E")
    slope_width: float = Field(0.2, ge=1e-6, description="width of the interval of the calibration slope")
    level: float = Field(0.95, gt=0, lt=1)

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        forms = ((self.prevalence,), (self.logit_mean, self.logit_sd), (self.beta_a, self.beta_b))
        if sorted(len(form) - form.count(None) for form in forms) not in ([0, 0, 1], [0, 0, 2]) or (
            any(None in form and any(number is not None for number in form) for form in forms)
        ):
            raise ValueError("give prevalence, or logit_mean with logit_sd, or beta_a with beta_b")
        return self
