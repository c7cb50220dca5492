"""Docstrings of functions of a family: the sections that several of them have are written once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from inspect import cleandoc, signature
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

#: Sections in their order, after the text without a heading.
_ORDER = ("", "Parameters", "Returns", "Yields", "Raises", "See Also", "Notes", "Examples")
_HEADING = re.compile(r"^(\w[\w ]*)\n-{4,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def shares(sections: str) -> Callable[[Function], Function]:
    """Return a decorator that completes the docstring of a function with shared ``sections``; see ``completed``."""

    def decorated(function: Function) -> Function:
        if function.__doc__ is not None:  # which python -OO removes
            function.__doc__ = completed(cleandoc(function.__doc__), sections, signature(function).parameters) + "\n"
        return function

    return decorated


def completed(docstring: str, sections: str, arguments: Iterable[str]) -> str:
    r"""Return the docstring of a function with these arguments and what it lacks of the ``sections``.

    Descriptions of other arguments are left out, and the others are in the order of the arguments. A shared example
    precedes that of the function, which needs no heading.

    >>> completed("Double it.", "Parameters\n----------\nx : float\n    Number.", ["x"]).splitlines()
    ['Double it.', '', 'Parameters', '----------', 'x : float', '    Number.']
    """
    if "\nExamples\n" not in docstring:
        docstring = docstring.replace("\n>>> ", "\nExamples\n--------\n>>> ", 1)
    own, shared = _sections(docstring), _sections(cleandoc(sections))
    names = list(arguments)
    described = {name: entry for name, entry in _entries(shared, "Parameters").items() if name in names}
    described |= _entries(own, "Parameters")
    whole = {**shared, **own, "Parameters": "\n".join(described[name] for name in sorted(described, key=names.index))}
    for name in ("Raises", "See Also"):
        whole[name] = "\n".join((_entries(shared, name) | _entries(own, name)).values())
    if "Examples" in shared and "Examples" in own:
        whole["Examples"] = f"{shared['Examples']}\n{own['Examples']}"
    order = [name for name in sorted(whole, key=_ORDER.index) if name and whole[name]]
    return "\n\n".join([whole[""], *(f"{name}\n{'-' * len(name)}\n{whole[name]}" for name in order)])


def _sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring by heading, and what precedes them by the empty one."""
    first, *others = _HEADING.split(text)
    return {"": first.strip(), **{name: body.strip() for name, body in zip(others[::2], others[1::2], strict=True)}}


def _entries(sections: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the entries of a section by the first of the names that each describes."""
    entries = [entry.rstrip() for entry in _ENTRY.split(sections.get(name, "")) if entry.strip()]
    return {re.split(r"[ ,\n]", entry, maxsplit=1)[0].lstrip("*"): entry for entry in entries}


def described(docstring: str, section: str) -> dict[str, str]:
    r"""Return what a section of a docstring says about each name, on one line.

    >>> described("Ends.\n\nAttributes\n----------\nlow, high : float\n    End of\n    the interval.\n", "Attributes")
    {'low': 'End of the interval.', 'high': 'End of the interval.'}
    """
    entries = filter(None, _ENTRY.split(_sections(cleandoc(docstring)).get(section, "")))
    parts = [entry.partition("\n") for entry in entries]
    return {name: " ".join(text.split()) for head, _, text in parts for name in head.split(" : ")[0].split(", ")}
