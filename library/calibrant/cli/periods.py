"""``--time``: the rows of a file by hour, day, month or year."""

from __future__ import annotations

from typing import Annotated

import typer

Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Column of times, in ISO 8601 or seconds since 1970. Each period is also measured separately. A period is "
        "an hour, day, month or year, depending on the time between the first and the last row.",
    ),
]
