"""Why a picture cannot be drawn."""

from __future__ import annotations


class PictureError(Exception):
    """What all of them are: a stable ``code``, and ``detail`` for people."""

    code = "picture-error"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class NothingToDraw(PictureError):
    """A diagram without data; ``detail`` is the problem that stands beside it."""

    code = "nothing-to-draw"


class UnknownPicture(PictureError):
    """No diagram of this name can be drawn."""

    code = "unknown-picture"


class InvalidPicture(PictureError):
    """A form, theme or width that no picture has, or diagrams that do not go together."""

    code = "invalid-picture"
