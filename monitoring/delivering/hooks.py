"""The hooks of a monitor: looked at before they are stored, and told without what is secret."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from calibrant.errors import CalibrationError
from monitoring.delivering.signing import InvalidSecret, new_secret, read_secret
from monitoring.delivering.targets import TargetRefused, Targets
from schemas.monitors import DAY, HookSpec

#: What stands for the query of a URL where it is told.
_HIDDEN = "?..."
#: Seconds that a secret which was replaced signs on.
ROTATION_SECONDS = DAY


class HookRefused(CalibrationError):
    """A hook whose URL the service does not send to, whose secret is none, or whose name another has."""

    code = "hook-refused"


def prepare(
    hooks: Sequence[HookSpec], targets: Targets, *, now: float, before: Sequence[HookSpec] = ()
) -> list[HookSpec]:
    """The hooks as they are stored, each with a secret; raises ``HookRefused``.

    A hook that was there ``before`` under its name keeps what is not given: its secrets, and its URL where that is
    given as it is told. One that is given another secret signs with the one before as well, for a day.
    """
    known = {hook.name: hook for hook in before}
    for i, hook in enumerate(hooks):
        if hook.name in {other.name for other in hooks[:i]}:
            raise HookRefused.at(f"/hooks/{i}/name", "is that of another hook as well")
    return [_prepared(hook, known.get(hook.name), targets, now, f"/hooks/{i}") for i, hook in enumerate(hooks)]


def _prepared(hook: HookSpec, before: HookSpec | None, targets: Targets, now: float, place: str) -> HookSpec:
    url = before.url if before is not None and hook.url == told_url(before.url) else hook.url
    try:
        targets.admit(url)
    except TargetRefused as error:
        raise HookRefused.at(f"{place}/url", str(error)) from None
    for field in ("secret", "old_secret"):
        _check_secret(getattr(hook, field), f"{place}/{field}")
    return hook.model_copy(update={"url": url} | _secrets(hook, before, now))


def _secrets(hook: HookSpec, before: HookSpec | None, now: float) -> dict[str, str | float | None]:
    """The secrets of a hook: those that are given, else those from before, else a new one."""
    secret, old, until = hook.secret, hook.old_secret, hook.old_secret_until
    if before is not None and old is None:
        if secret in (None, before.secret):
            secret, old, until = before.secret, before.old_secret, before.old_secret_until
        else:
            old = before.secret
    if old is not None and until is None:
        until = now + ROTATION_SECONDS
    return {"secret": secret or new_secret(), "old_secret": old, "old_secret_until": None if old is None else until}


def _check_secret(secret: str | None, pointer: str) -> None:
    try:
        if secret is not None:
            read_secret(secret)
    except InvalidSecret as error:
        raise HookRefused.at(pointer, str(error)) from None


def told_url(url: str) -> str:
    """A URL without its query, in which secrets may stand."""
    path, mark, _ = url.partition("?")
    return path + _HIDDEN if mark else path


def told(hooks: Sequence[HookSpec], shown: Collection[str] = ()) -> list[HookSpec]:
    """The hooks as callers see them; the secrets of those named in ``shown``, which were made for the caller, too."""
    return [
        hook.model_copy(
            update={
                "url": told_url(hook.url),
                "secret": hook.secret if hook.name in shown else None,
                "old_secret": None,
            }
        )
        for hook in hooks
    ]


def keys_of(hook: HookSpec, now: float) -> list[bytes]:
    """The keys that sign for a hook, the newest first; raises ``InvalidSecret`` where it has none."""
    keys = [read_secret(hook.secret or "")]
    if hook.old_secret is not None and (hook.old_secret_until is None or now < hook.old_secret_until):
        keys.append(read_secret(hook.old_secret))
    return keys
