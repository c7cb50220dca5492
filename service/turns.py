"""Work that waits for its turn without a thread: a limited amount runs at once, and tenants take turns."""

from __future__ import annotations

import asyncio
from collections import deque

from service.callers import LOCAL, Caller


class Turns:
    """Lets work of ``total`` units run at once, of which a tenant may have half; without API keys it may have all.

    Work of more units than that runs alone. The rest waits: tenants take turns, and each tenant's work is in order.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._taken = 0
        self._held: dict[str, int] = {}
        # The waiting work by tenant, with its caller and amount: the first tenant is next, and then moves to the end.
        self._lines: dict[str, deque[tuple[asyncio.Future[None], Caller, int]]] = {}

    async def take(self, caller: Caller, amount: int = 1) -> None:
        """Return when it is the turn of work, which must be given back when it ends."""
        mine = asyncio.get_running_loop().create_future()
        self._lines.setdefault(caller.tenant, deque()).append((mine, caller, amount))
        self._begin()
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():  # it had already been its turn
                self.give_back(caller, amount)
            raise

    def give_back(self, caller: Caller, amount: int = 1) -> None:
        """End work, and begin what waited for it."""
        self._add(caller, -amount)
        self._begin()

    def _begin(self) -> None:
        """Begin the work whose turn it is, as far as there is room."""
        tenants = deque(self._lines)
        while tenants:
            tenant = tenants.popleft()
            line = self._lines[tenant]
            while line and line[0][0].done():  # skip cancelled work
                line.popleft()
            if not line:
                del self._lines[tenant]
                continue
            first, caller, amount = line[0]
            if self._taken and self._taken + amount > self._total:
                return
            held, most = self._held.get(tenant, 0), self._total if caller == LOCAL else self._total // 2
            if held and held + amount > most:
                continue
            line.popleft()
            self._add(caller, amount)
            first.set_result(None)
            self._lines[tenant] = self._lines.pop(tenant)  # to the end
            tenants.append(tenant)

    def _add(self, caller: Caller, amount: int) -> None:
        self._taken += amount
        held = self._held.get(caller.tenant, 0) + amount
        if held:
            self._held[caller.tenant] = held
        else:  # tenants must not occupy memory forever
            self._held.pop(caller.tenant, None)
