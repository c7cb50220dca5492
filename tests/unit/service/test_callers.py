from __future__ import annotations

from backend.store.clock import stamp
from schemas.keys import KeyRecord, Secret, digest_of
from service.callers import Keyring


def _record(key_id: str, *secrets: Secret, tenant: str = "a") -> KeyRecord:
    return KeyRecord(
        id=key_id, name="n", tenant=tenant, scope="write", secrets=list(secrets), created_at=stamp(), revoked_at=None
    )


def _secret(text: str, after: int | None = None) -> Secret:
    return Secret(digest=digest_of(text), created_at=stamp(), expires_at=None if after is None else stamp(after=after))


def test_a_key_is_found_by_either_live_secret_and_by_nothing_else() -> None:
    keyring = Keyring()
    assert not keyring
    keyring.read([_record("1f", _secret("old", 60), _secret("new_er")), _record("2e", _secret("gone", -1))])
    assert keyring
    for text in ("calk_1f_old", "calk_1f_new_er"):
        caller = keyring.find(text)
        assert caller is not None
        assert (caller.tenant, caller.key_id) == ("a", "1f")
    for text in ("calk_2e_gone", "calk_1f_new", "calk_1f_", "calk_3d_old", "other_1f_old", "old", "", "calk", "\udcff"):
        assert keyring.find(text) is None
    keyring.read([_record("1f")])
    assert keyring.find("calk_1f_old") is None
