from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from backend.monitors.webhook_requests import InvalidSecret, headers, new_secret, read_secret, sign

#: The vector of the tests of github.com/standard-webhooks/standard-webhooks (libraries), version 1.0.0.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE, TIMESTAMP, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_published_vector_is_signed_alike() -> None:
    assert sign([read_secret(SECRET)], MESSAGE, TIMESTAMP, BODY) == SIGNATURE
    assert headers([read_secret(SECRET)], MESSAGE, TIMESTAMP, BODY) == {
        "webhook-id": MESSAGE,
        "webhook-timestamp": "1614265330",
        "webhook-signature": SIGNATURE,
    }


def test_the_reference_package_signs_alike_and_accepts_what_is_signed() -> None:
    secret = new_secret()
    now = datetime.now(tz=UTC)
    sent = headers([read_secret(secret)], MESSAGE, int(now.timestamp()), BODY)
    assert sent["webhook-signature"] == Webhook(secret).sign(MESSAGE, now, BODY.decode())
    assert Webhook(secret).verify(BODY, sent) == {"test": 2432232314}
    both = headers([read_secret(new_secret()), read_secret(secret)], MESSAGE, int(now.timestamp()), BODY)
    assert Webhook(secret).verify(BODY, both) == {"test": 2432232314}


@pytest.mark.parametrize("change", [{"webhook-id": "msg_2"}, {"webhook-timestamp": "{later}"}, {}])
def test_the_reference_package_refuses_another_id_time_or_body(change: dict[str, str]) -> None:
    secret, now = new_secret(), int(datetime.now(tz=UTC).timestamp())
    sent = headers([read_secret(secret)], MESSAGE, now, BODY)
    changed = sent | {name: text.format(later=now + 1) for name, text in change.items()}
    with pytest.raises(WebhookVerificationError, match="No matching signature"):
        Webhook(secret).verify(BODY if change else BODY + b" ", changed)


def test_while_a_secret_is_changed_there_is_a_signature_by_each() -> None:
    old, new = read_secret(SECRET), read_secret(new_secret())
    both = sign([new, old], MESSAGE, TIMESTAMP, BODY)
    assert both.split(" ") == [sign([new], MESSAGE, TIMESTAMP, BODY), SIGNATURE]


def test_the_signature_covers_the_id_the_time_and_every_byte() -> None:
    key = read_secret(SECRET)
    others = [("msg_2", TIMESTAMP, BODY), (MESSAGE, TIMESTAMP + 1, BODY), (MESSAGE, TIMESTAMP, BODY + b" ")]
    assert SIGNATURE not in [sign([key], *other) for other in others]


def test_generated_secrets_are_long_and_different() -> None:
    assert len(read_secret(new_secret())) == 32
    assert new_secret() != new_secret()


@pytest.mark.parametrize("n", [24, 64])
def test_secrets_of_24_to_64_bytes_are_read(n: int) -> None:
    assert len(read_secret("whsec_" + base64.b64encode(bytes(n)).decode())) == n


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa\u00e4w",
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
    ],
)
def test_other_texts_are_refused_as_secrets_and_not_echoed(text: str) -> None:
    with pytest.raises(InvalidSecret) as refused:
        read_secret(text)
    assert text.removeprefix("whsec_") in ("", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") or text not in str(refused.value)
    assert refused.value.__cause__ is None
