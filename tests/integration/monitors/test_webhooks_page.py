"""docs/how-to/webhooks.md: what it has receivers do accepts what is sent, and nothing else."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from standardwebhooks import WebhookVerificationError

from backend.monitors.webhook_requests import new_secret
from backend.monitors.webhooks import DELAYS, attempt
from backend.store.clock import now
from backend.store.store import Store
from schemas.monitor_alarms import AlarmType, AttemptError, HookTestType, RecalibrationType
from tests.integration.monitors.receiver import Got, receiving
from tests.integration.monitors.stored import monitor
from tests.integration.monitors.test_deliveries import asked, hook, means

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "webhooks.md").read_text("utf-8")
NEW, OLD = new_secret(), new_secret()

Check = Callable[..., bool]


@pytest.fixture(scope="module")
def is_genuine() -> Check:
    """The function of the page."""
    (block,) = [text for text in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if "def is_genuine" in text]
    there: dict[str, Any] = {}
    exec(compile(block, "docs/how-to/webhooks.md", "exec"), there)
    check: Check = there["is_genuine"]
    return check


@pytest.fixture
def got(store: Store) -> Got:
    """A request as it came, signed by two secrets."""
    with receiving() as receiver:
        rotated = hook(receiver, secret=NEW, old_secret=OLD, old_secret_until=now().timestamp() + 600)
        watched = monitor(store, hooks=[rotated])
        (record,) = asked(store, watched)
        assert attempt(store, watched.id, record.id, means()) is None
        return receiver.next()


def test_a_delivery_verifies_with_either_secret(is_genuine: Check, got: Got) -> None:
    assert is_genuine(NEW, got.headers, got.body)
    assert is_genuine(OLD, got.headers, got.body)


def test_a_changed_old_or_foreign_delivery_does_not_verify(is_genuine: Check, got: Got) -> None:
    def changed(**headers: str) -> Mapping[str, str]:
        return {**got.headers, **{name.replace("_", "-"): text for name, text in headers.items()}}

    assert not is_genuine(new_secret(), got.headers, got.body)
    assert not is_genuine(NEW, got.headers, got.body + b" ")
    assert not is_genuine(NEW, changed(webhook_id="event_1"), got.body)
    assert not is_genuine(NEW, changed(webhook_timestamp=str(int(now().timestamp()) - 301)), got.body)
    assert not is_genuine(NEW, changed(webhook_signature="v1," + base64.b64encode(bytes(32)).decode()), got.body)
    assert not is_genuine(NEW, got.headers, got.body, tolerance=-1.0)


@pytest.fixture(scope="module")
def verified() -> Callable[[str, Mapping[str, str], bytes], Any]:
    """The program of the page with the package ``standardwebhooks``."""
    (block,) = [text for text in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if "import Webhook" in text]
    program = compile(block, "docs/how-to/webhooks.md", "exec")

    def run(secret: str, headers: Mapping[str, str], body: bytes) -> Any:
        there: dict[str, Any] = {"secret": secret, "headers": headers, "body": body}
        exec(program, there)
        return there["event"]

    return run


def test_the_package_verifies_a_delivery_with_either_secret(verified: Callable[..., Any], got: Got) -> None:
    for secret in (NEW, OLD):
        assert verified(secret, got.headers, got.body) == json.loads(got.body)


def test_the_package_refuses_a_changed_old_or_foreign_delivery(verified: Callable[..., Any], got: Got) -> None:
    old = str(int(now().timestamp()) - 301)
    for secret, headers, body in (
        (new_secret(), got.headers, got.body),
        (NEW, got.headers, got.body + b" "),
        (NEW, {**got.headers, "webhook-id": "event_1"}, got.body),
        (NEW, {**got.headers, "webhook-timestamp": old}, got.body),
        (NEW, {name: text for name, text in got.headers.items() if name != "webhook-signature"}, got.body),
    ):
        with pytest.raises(WebhookVerificationError):
            verified(secret, headers, body)


def test_every_event_and_every_error_is_on_the_page() -> None:
    words = (*get_args(AlarmType), *get_args(RecalibrationType), *get_args(HookTestType), *get_args(AttemptError))
    assert [word for word in words if f"`{word}`" not in PAGE] == []
    assert len(words) > 10


def test_the_delays_are_those_of_the_page() -> None:
    delays = re.search(r"then after ([^,]+(?:, [^,]+)*?) and (\d+ \w+)\. Each", " ".join(PAGE.split()))
    assert delays is not None
    units = {"s": 1, "min": 60, "h": 3600}
    said = [text.split(" ") for text in [*delays[1].split(", "), delays[2]]]
    assert [int(number) * units[unit] for number, unit in said] == list(DELAYS)
