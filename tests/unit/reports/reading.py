"""HTML read as strictly as a file of ours must hold: every element closed, every attribute quoted and once."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "img", "br", "link", "hr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    text: str = ""
    inside: list[str] = field(default_factory=list)


class Page(HTMLParser):
    """The elements of a page in order; an assertion fails where one is not closed or an attribute stands twice."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert self._open == [], [element.tag for element in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), tag
        assert all(name.replace("-", "").isalpha() for name, _ in attrs), (tag, attrs)
        element = Element(tag, {k: v or "" for k, v in attrs}, inside=[above.tag for above in self._open])
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1].tag == tag, f"</{tag}> closes {self._open[-1].tag}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    def all(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every element with the names of its attributes: what data must not change."""
        return [(element.tag, tuple(element.attributes)) for element in self.elements]
