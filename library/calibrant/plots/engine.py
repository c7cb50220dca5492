"""Import of matplotlib on first use, with only its own fonts, so that pictures are the same on every machine."""

from __future__ import annotations

import importlib
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from calibrant.core.errors import requires

#: Held during every use of matplotlib, whose settings and fonts are global.
LOCK = threading.RLock()
#: The fonts of pictures, which are part of matplotlib.
FONTS = {"normal": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf"}
_NEEDED = ("matplotlib.figure", "matplotlib.backends.backend_svg", "matplotlib.backends.backend_agg")
_loaded = threading.Event()


def load() -> None:
    """Import matplotlib. The first call takes about half a second.

    By default, its font manager scans all fonts of the system and caches the list in the home folder, or logs a warning
    if it cannot. The environment variables prevent both.
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
    """Return the path of a font of ``FONTS``."""
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
