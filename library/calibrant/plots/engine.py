"""matplotlib, loaded on first use: with its own fonts alone, whatever the machine and its user have."""

from __future__ import annotations

import importlib
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from calibrant.errors import requires

#: Held while anything of matplotlib works: its settings and its fonts are the process's.
LOCK = threading.RLock()
#: The fonts that pictures are set in; they come with matplotlib.
FONTS = {"normal": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf"}
_NEEDED = ("matplotlib.figure", "matplotlib.backends.backend_svg", "matplotlib.backends.backend_agg")
_loaded = threading.Event()


def load() -> None:
    """Import what pictures need of matplotlib. The first call takes about half a second.

    Its font manager would read every font of the system, and keep a list of them in the home folder or log that it
    cannot. Told not to, and given a folder that is gone afterwards, it does neither.
    """
    with LOCK:
        if _loaded.is_set():
            return
        with (
            tempfile.TemporaryDirectory(prefix="calibrant-") as folder,
            _environment(MPL_IGNORE_SYSTEM_FONTS="1", MPLCONFIGDIR=folder),
            requires("plots", "a picture"),
        ):
            for name in _NEEDED:
                importlib.import_module(name)
        _loaded.set()


@cache
def font_path(weight: str) -> Path:
    """Where a font of ``FONTS`` lies."""
    with requires("plots", "a picture"):
        import matplotlib
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / FONTS[weight]


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
