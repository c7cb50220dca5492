"""Which map is the champion that challengers are compared with, and which alias is moved to them."""

from __future__ import annotations

from schemas.monitors import MonitorBody
from storage.registry.references import read_reference


def target_of(record: MonitorBody) -> str:
    """The name of which challengers become versions: as it is told, else that of the monitor's map, else its own."""
    named = None if record.map is None else read_reference(record.map)
    return record.recalibration.name or (None if named is None else named.name) or record.name


def unlike_alias(body: MonitorBody) -> str | None:
    """Why the alias that is moved is not what challengers are compared with, if it is not.

    The monitor's map must be what the alias means, and so must be what rows are mapped by after it was moved. Without
    a map predictions are compared as they are, of which no alias says anything: it must not be there yet.
    """
    wanted = f"{target_of(body)}@{body.recalibration.alias}"
    if body.map in (None, wanted):
        return None
    return f"would move {wanted}, where what is compared is the monitor's map, {body.map}: they must be the same"
