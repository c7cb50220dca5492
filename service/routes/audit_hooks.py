"""Routes of the hooks of the audit log, which send its entries elsewhere."""

from __future__ import annotations

import re

from fastapi import Request, Response

from backend.monitors import audit_hooks
from calibrant.io.errors import InvalidField
from schemas.audit_hooks import AuditHookAnswer, AuditHookBody, AuditHooksAnswer
from schemas.base import LABEL
from service.calls import Call, Calls, ClientMethod, fields
from service.context import Here, answer
from service.formats.body import read_fields
from service.paging import whole_list
from service.threads import run_in_thread

calls = Calls("audit", reads="admin", writes="admin")


@calls.add(
    Call("GET", "/audit/hooks", answer=AuditHooksAnswer, client=(ClientMethod("audit_hooks", answer_field="items"),))
)
async def get_audit_hooks(here: Here) -> Response:
    """List the hooks of the audit log, with the last entry that each accepted and its last attempt.

    Examples
    --------
    >>> client.audit_hooks()
    []
    """
    hooks = await run_in_thread(audit_hooks.hooks_of(here.store).all)
    return whole_list([audit_hooks.answer_of(hook).model_dump() for hook in hooks])


@calls.add(
    Call(
        "PUT",
        "/audit/hooks/{hook}",
        body=fields(AuditHookBody),
        answer=AuditHookAnswer,
        problems=("hook-refused", "invalid-option", "quota-exceeded"),
        client="audit_hook",
    )
)
async def put_audit_hook(hook: str, request: Request, here: Here) -> Response:
    """Send the entries from now on to a URL as CloudEvents, signed like other webhooks.

    A changed hook keeps its position, and its secret unless the body has another. If the service generates the secret,
    only this response contains it.

    Examples
    --------
    A service allows no hosts by default:

    >>> client.audit_hook("siem", "https://siem.example.com/calibrant")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    calibrant.client.errors.ProblemResponse: /url: the host is not allowed
    """
    if re.fullmatch(LABEL, hook) is None:
        raise InvalidField.at("/hook", f"must match {LABEL}")
    body = await read_fields(request, here.settings, AuditHookBody)
    return answer((await run_in_thread(audit_hooks.set_hook, here, here.targets, hook, body)).model_dump())


@calls.add(Call("DELETE", "/audit/hooks/{hook}", status=204, problems=("unknown-hook",), client="delete_audit_hook"))
async def delete_audit_hook(hook: str, here: Here) -> Response:
    """Delete a hook of the audit log; nothing more is sent to it.

    Examples
    --------
    >>> for hook in client.audit_hooks():
    ...     client.delete_audit_hook(hook.name)
    """
    await run_in_thread(audit_hooks.hooks_of(here.store).delete, hook)
    return Response(status_code=204)
