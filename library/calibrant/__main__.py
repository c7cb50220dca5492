"""``python -m calibrant``."""

from calibrant.cli import run

run()
