from __future__ import annotations

import pytest

from backend.monitors.webhook_requests import check_secret, made_secret, read_secret
from calibrant.core.errors import InvalidOption


def test_a_generated_secret_is_accepted() -> None:
    secret = made_secret(None, "hook")
    check_secret(secret, "/secret")
    assert len(read_secret(secret)) == 32


def test_no_two_secrets_are_the_same_but_those_of_one_request() -> None:
    assert made_secret(None, "hook") != made_secret(None, "hook")
    assert made_secret("seed", "hook") == made_secret("seed", "hook")
    assert len({made_secret("seed", "hook"), made_secret("seed", "other"), made_secret("seeds", "hook")}) == 3


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_not base64", "whsec_" + "A" * 28, "A" * 44, "whsec_" + "A" * 92]
)
def test_other_forms_are_refused(secret: str) -> None:
    with pytest.raises(InvalidOption):
        check_secret(secret, "/secret")


def test_no_secret_is_generated_later() -> None:
    check_secret(None, "/secret")
