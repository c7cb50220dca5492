from __future__ import annotations

import base64

import pytest

from backend.monitors.webhook_requests import read_secret
from backend.monitors.webhook_targets import Targets
from backend.monitors.webhooks import DELAYS, ROTATION_SECONDS, HookRefused, RetrySchedule, keys_of, prepare
from calibrant.core.errors import InvalidOption
from schemas.monitors import HookSpec

TARGETS = Targets.read("alerts.example.com", "")
URL = "https://alerts.example.com/in"
A, B, C = ("whsec_" + base64.b64encode(bytes([i]) * 24).decode() for i in range(3))


def _prepared(hook: HookSpec, *before: HookSpec, now: float = 1000.0) -> HookSpec:
    return prepare([hook], TARGETS, now=now, make=lambda name: C, before=before)[0]


def test_a_hook_without_a_secret_gets_one() -> None:
    hook = _prepared(HookSpec(name="mine", url=URL))
    assert (hook.secret, hook.old_secret) == (C, None)


def test_a_hook_keeps_its_secret_until_it_is_given_another_and_then_signs_with_both_for_a_day() -> None:
    first = _prepared(HookSpec(url=URL, secret=A))
    assert _prepared(HookSpec(url=URL), first) == first
    rotated = _prepared(HookSpec(url=URL, secret=B), first)
    assert _prepared(HookSpec(url=URL), rotated, now=2000.0) == rotated
    assert keys_of(rotated, 1000.0 + ROTATION_SECONDS - 1) == [read_secret(B), read_secret(A)]
    assert keys_of(rotated, 1000.0 + ROTATION_SECONDS) == [read_secret(B)]


def test_a_hook_with_its_shown_url_keeps_its_stored_url() -> None:
    hook = _prepared(HookSpec(url=f"{URL}?token=hush", secret=A))
    assert "hush" not in hook.shown(secret=True).model_dump_json()
    assert A not in hook.shown().model_dump_json()
    assert _prepared(hook.shown(), hook) == hook


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://hooks.example.com/services/T0/B0/hush", "https://hooks.example.com/..."),
        ("https://example.com:8443/hush?sig=hush", "https://example.com:8443/..."),
        ("https://example.com?sig=hush", "https://example.com/..."),
        ("https://example.com/", "https://example.com/"),
        ("https://example.com", "https://example.com"),
    ],
)
def test_only_the_host_of_a_url_is_shown(url: str, host: str) -> None:
    assert HookSpec(url=url).shown().url == host


def test_a_shown_url_is_refused_for_a_new_hook() -> None:
    hook = _prepared(HookSpec(url=URL, secret=A))
    with pytest.raises(HookRefused):
        _prepared(hook.shown().model_copy(update={"name": "other"}), hook)


def test_a_shown_hook_has_no_secret() -> None:
    hook = HookSpec(url=f"{URL}?token=hush", secret=A, old_secret=B)
    assert not [word for word in ("hush", A, B) if word in repr(hook) + str(hook)]


def test_a_hook_is_refused_at_its_field() -> None:
    with pytest.raises(HookRefused) as refused:
        prepare([HookSpec(url=URL), HookSpec(name="b", url="https://x.org/?hush")], TARGETS, now=0, make=lambda name: C)
    assert [offence.pointer for offence in refused.value.offences] == ["/hooks/1/url"]
    assert "hush" not in str(refused.value)
    for secrets, field in (({"secret": "hush"}, "secret"), ({"secret": A, "old_secret": "hush"}, "old_secret")):
        with pytest.raises(InvalidOption) as wrong:
            _prepared(HookSpec.model_validate({"url": URL, **secrets}))
        assert [offence.pointer for offence in wrong.value.offences] == [f"/hooks/0/{field}"]
        assert "hush" not in str(wrong.value)


def test_delays_grow_and_end_and_a_receiver_may_lengthen_them() -> None:
    plan = RetrySchedule()
    assert plan.attempts == 8
    for tried, delay in enumerate(DELAYS, 1):
        drawn = [plan.after(tried) or 0.0 for _ in range(50)]
        assert all(0.75 * delay <= wait <= 1.25 * delay for wait in drawn)
        assert len(set(drawn)) > 1
    assert plan.after(8) is None
    assert plan.after(1, wait=600) == 600
    assert plan.after(1, wait=10**9) == 86_400


def test_a_shown_url_is_refused_for_another_hook() -> None:
    hook = _prepared(HookSpec(name="one", url=f"{URL}?token=hush", secret=A))
    assert _prepared(hook.shown(), hook).url == hook.url
    with pytest.raises(HookRefused) as refused:
        _prepared(hook.shown().model_copy(update={"name": "two"}), hook)
    assert [offence.pointer for offence in refused.value.offences] == ["/hooks/0/url"]
