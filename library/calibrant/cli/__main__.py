"""``python -m calibrant.cli``."""

from calibrant.cli import run

run()
