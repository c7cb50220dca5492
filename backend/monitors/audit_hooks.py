"""Sending the audit log: each hook has a position in the log, and gets the entries after it in order."""

from __future__ import annotations

import hashlib

from backend.monitors.webhook_requests import AttemptOutcome, InvalidSecret, headers, made_secret
from backend.monitors.webhook_targets import TargetRefused, Targets
from backend.monitors.webhooks import MOST_SECONDS, Means, keys_of, prepare_hook
from backend.requester import Requester
from backend.store.audit_hooks import AuditHooks
from backend.store.chores import Chore
from backend.store.clock import now, stamp
from backend.store.errors import UnknownHook
from backend.store.store import Store
from calibrant import __version__
from schemas.audit_hooks import AuditEvent, AuditHookAnswer, AuditHookBody, HookProgress, StoredHook
from schemas.monitors import HookSpec

#: In the id of a background task, instead of a monitor.
AUDIT = "audit"
#: Seconds between two looks for new entries, and the longest pause after failures.
LOOK_SECONDS, LONGEST_SECONDS = 5.0, 3600.0
#: Number of entries sent by one task, so that tenants take turns.
_AT_ONCE = 50


def set_hook(requester: Requester, targets: Targets, name: str, body: AuditHookBody) -> AuditHookAnswer:
    """Store a hook and begin to send; raises ``HookRefused``, ``InvalidOption`` and ``QuotaExceeded``."""
    store, hooks = requester.store, hooks_of(requester.store)
    before = next((hook for hook in hooks.all() if hook.name == name), None)
    spec, moment = HookSpec(name=name, url=body.url, secret=body.secret), now().timestamp()
    spec = prepare_hook(spec, before, targets, moment, lambda name: made_secret(requester.seed, f"audit {name}"), "")
    hook = hooks.put(spec, Chore("deliver", store.keys.tenant, f"{line_of(spec)}/{AUDIT}/{name}"))
    return answer_of(hook, fresh=body.secret is None and before is None)


def line_of(hook: HookSpec) -> str:
    """The line in which the task of a hook waits: one for each scheme, host and port."""
    return hashlib.sha256(hook.origin.lower().encode()).hexdigest()[:16]


def answer_of(hook: StoredHook, *, fresh: bool = False) -> AuditHookAnswer:
    """A hook as callers see it; with its secret if that is ``fresh``, which is generated for this caller."""
    secret = hook.secret if fresh else None
    return AuditHookAnswer(name=hook.name, url=hook.shown_url, secret=secret, progress=hook.progress)


def hooks_of(store: Store) -> AuditHooks:
    """The hooks of a tenant."""
    return AuditHooks(store.redis, store.keys, store.audit)


def send_entries(store: Store, name: str, target: str, means: Means) -> float | None:
    """Send entries to a hook, from its position on; returns the seconds until the next look.

    None without the hook, and if its target is another, which has a task of its own.
    """
    hooks = hooks_of(store)
    for _ in range(_AT_ONCE):
        try:
            hook = hooks.get(name)
        except UnknownHook:
            return None
        if line_of(hook) != target:
            return None
        progress = hook.progress
        entry = store.audit.next_after(progress.sent)
        if entry is None:
            return LOOK_SECONDS
        outcome = _send(hook, AuditEvent.of(entry, store.keys.tenant), means)
        sent = entry.id if outcome.succeeded else progress.sent
        failures = 0 if outcome.succeeded else progress.failures + 1
        about = {"status": outcome.status, "error": outcome.error, "at": stamp()}
        hooks.note(hook, HookProgress(sent=sent, failures=failures, **about))
        if failures:
            planned = means.plan.after(min(failures, means.plan.attempts - 1), outcome.wait) or LONGEST_SECONDS
            return min(planned, MOST_SECONDS if outcome.wait else LONGEST_SECONDS)
    return 0.0


def _send(hook: StoredHook, event: AuditEvent, means: Means) -> AttemptOutcome:
    moment = now().timestamp()
    body = event.model_dump_json(exclude_none=True).encode()
    try:
        signed = headers(keys_of(hook, moment), event.id, int(moment), body)
        target = means.sender.targets.admit(hook.url)
    except InvalidSecret:
        return AttemptOutcome(error="no-secret")
    except TargetRefused:
        return AttemptOutcome(error="not-admitted")
    about = {"Content-Type": "application/cloudevents+json", "User-Agent": f"Calibrant/{__version__}"}
    return means.sender.post(target, body, about | signed)
