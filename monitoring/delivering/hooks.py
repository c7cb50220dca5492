"""The hooks of a monitor, looked at before they are stored, and the keys that sign for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calibrant.errors import CalibrationError, InvalidOption
from monitoring.delivering.signing import read_secret
from monitoring.delivering.targets import TargetRefused, Targets
from monitoring.hook_secrets import check_secret
from schemas.monitors import DAY, HIDDEN, HookSpec

#: Seconds that a secret which was replaced signs on.
ROTATION_SECONDS = DAY


class HookRefused(CalibrationError):
    """A hook to whose URL the service does not send."""

    code = "hook-refused"


def prepare(
    hooks: Sequence[HookSpec],
    targets: Targets,
    *,
    now: float,
    make: Callable[[str], str],
    before: Sequence[HookSpec] = (),
) -> list[HookSpec]:
    """The hooks as they are stored, each with a secret; ``make`` makes that of a hook of that name.

    A hook that was there ``before`` under its name keeps what is not given: its secrets, and its URL where that is
    given as it is told. One that is given another secret signs with the one before as well, for a day. Raises
    ``HookRefused``, and ``InvalidOption`` for a secret that is none.
    """
    known = {hook.name: hook for hook in before}
    return [_prepared(hook, known.get(hook.name), targets, now, make, f"/hooks/{i}") for i, hook in enumerate(hooks)]


def _prepared(
    hook: HookSpec, before: HookSpec | None, targets: Targets, now: float, make: Callable[[str], str], place: str
) -> HookSpec:
    url = before.url if before is not None and hook.url == before.told_url else hook.url
    if url.endswith(HIDDEN):  # stored, it would be called without what it hides, and nobody would know
        told = "hides its query, and is kept for a hook of this name and URL alone: give the whole URL"
        raise InvalidOption.at(f"{place}/url", told)
    try:
        targets.admit(url)
    except TargetRefused as error:
        raise HookRefused.at(f"{place}/url", str(error)) from None
    check_secret(hook.secret, f"{place}/secret")
    check_secret(hook.old_secret, f"{place}/old_secret")
    secret, old, until = _secrets(hook, before)
    if old is None:
        until = None
    elif until is None:
        until = now + ROTATION_SECONDS
    changed = {"url": url, "secret": secret or make(hook.name), "old_secret": old, "old_secret_until": until}
    return hook.model_copy(update=changed)


def _secrets(hook: HookSpec, before: HookSpec | None) -> tuple[str | None, str | None, float | None]:
    """The secret of a hook, the one before it, and until when that signs: as given, else as they were."""
    if before is None or hook.old_secret is not None:
        return hook.secret or (before.secret if before else None), hook.old_secret, hook.old_secret_until
    if hook.secret in (None, before.secret):
        return before.secret, before.old_secret, before.old_secret_until
    return hook.secret, before.secret, hook.old_secret_until


def keys_of(hook: HookSpec, now: float) -> list[bytes]:
    """The keys that sign for a hook, the newest first; raises ``InvalidSecret`` where it has none."""
    keys = [read_secret(hook.secret or "")]
    if hook.old_secret is not None and (hook.old_secret_until is None or now < hook.old_secret_until):
        keys.append(read_secret(hook.old_secret))
    return keys
