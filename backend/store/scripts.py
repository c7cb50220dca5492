"""The Lua scripts of the store, in ``lua/MODULE/NAME.lua``; each run of a script is one atomic step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redis import Redis
from redis.client import Pipeline

FOLDER = Path(__file__).with_name("lua")


class Script:
    """The text of one or several files in order, without lines of comments, because every run sends it."""

    def __init__(self, *names: str) -> None:
        lines = [line for name in names for line in (FOLDER / f"{name}.lua").read_text("utf-8").splitlines()]
        self.text = "\n".join(line for line in lines if not line.lstrip().startswith("--"))

    def run(self, client: Redis | Pipeline, keys: Sequence[str], *arguments: str | bytes | float) -> Any:
        """Return what the script returns, or queue it if ``client`` is a pipeline."""
        return client.eval(self.text, len(keys), *keys, *arguments)
