"""Colours by what they stand for, light and dark.

Okabe & Ito's palette (2008), which people with any colour vision tell apart; pictures never tell by colour alone. On
dark paper each hue is lightened until it has the contrast there that it has on white.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from pictures.drawn import Theme
from pictures.errors import InvalidPicture

#: What a colour stands for: text and its quieter kinds, lines that help, and what is measured (series and tints).
Role = Literal[
    "paper", "ink", "quiet", "rule", "faint", "first", "second", "third", "fourth", "first-tint", "second-tint", "band"
]
ROLES: tuple[Role, ...] = get_args(Role)
#: Several models take these in turn, each with a dash of its own.
SERIES: tuple[Role, ...] = ("first", "second", "third", "fourth")


@dataclass(frozen=True)
class Palette:
    """A colour, ``#rrggbb``, for each role; no two are the same."""

    colours: Mapping[Role, str]

    def __getitem__(self, role: Role) -> str:
        return self.colours[role]


def _palette(*colours: str) -> Palette:
    return Palette(MappingProxyType(dict(zip(ROLES, colours, strict=True))))


LIGHT = _palette(
    "#ffffff", "#1b1f24", "#57606a", "#8c959f", "#e3e6ea", "#0072b2", "#c24e00", "#007f5c", "#9c4f80",
    "#a9d0e8", "#f6c8a6", "#d9dee4",
)  # fmt: skip
DARK = _palette(
    "#14181d", "#e8ebee", "#a3acb6", "#6e7883", "#2b323a", "#56b4e9", "#f0954a", "#2fc99b", "#dd93bd",
    "#24506b", "#6b4223", "#3a434d",
)  # fmt: skip


def palette(theme: Theme) -> Palette:
    """The colours that a theme is drawn in; ``auto`` begins as light."""
    if theme not in get_args(Theme):
        raise InvalidPicture(f"the theme must be one of {', '.join(get_args(Theme))}")
    return DARK if theme == "dark" else LIGHT


def variable(role: Role) -> str:
    """The CSS custom property of a role, as a colour: light where nothing defines it.

    >>> variable("ink")
    'var(--picture-ink, #1b1f24)'
    """
    return f"var(--picture-{role}, {LIGHT[role]})"


def style_sheet() -> str:
    """The rules by which a picture of theme ``auto`` follows its reader; a page that holds pictures may have its own.

    >>> style_sheet().startswith(".picture{--picture-paper:#ffffff;")
    True
    """
    light, dark = ("".join(f"--picture-{role}:{colours[role]};" for role in ROLES) for colours in (LIGHT, DARK))
    return f".picture{{{light}}}@media (prefers-color-scheme:dark){{.picture{{{dark}}}}}"
