from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.batch import read_batch
from calibrant.evaluation import Evaluation, report_document
from calibrant.reports import panel
from calibrant.reports.advice import recommended_map
from calibrant.reports.html import fragment, standalone, stylesheet
from calibrant.reports.panel import ReportSubject, group_diagrams
from calibrant.reports.reproduction import reproduction
from tests.unit.reports.reading import Page
from tests.unit.reports.worlds import draw, many_classes, report_of

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style></title></article><h1>",
    "nul\0 and bell\a",
    "right \N{RIGHT-TO-LEFT OVERRIDE}gnp.exe\N{RIGHT-TO-LEFT ISOLATE}",
    "zero\N{ZERO WIDTH SPACE}width\N{BYTE ORDER MARK}",
    "{{ 7 * 7 }}{% raw %}",
    "]]><!-- --><?php",
    "line\N{LINE SEPARATOR}end\r\n\t.",
    "n" * 256,
    "a \udfff surrogate",
    "",
]


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """A report of everything: a map, two groups, ``a`` and ``b``, with their diagrams, and a recommendation."""
    p, y = draw("overconfident", 600)
    fitted = calibrant.fit("temperature", p[:300], y[:300])
    p, y = p[300:], y[300:]
    second = calibrant.evaluate(p, y, groups=["a", "b"] * 150, map=fitted, **panel.by_group(300, None))
    whole = panel.joined(report_of(p, y, map=fitted), report_document(second, "map_1"))
    batch = read_batch(p, y)
    drawn = group_diagrams(Evaluation(()).check(batch, ["a", "b"] * 150))
    return whole | {"group_diagrams": drawn, "recommendation": recommended_map(batch).to_document()}


def _renamed(report: dict[str, Any], name: str) -> dict[str, Any]:
    """The report with the name in the place of group ``a`` and of the map."""
    gaps = {
        key: gap | {"between": [name if group == "a" else group for group in gap["between"]]}
        for key, gap in report["gaps"].items()
    }
    groups = {name if key == "a" else key: group for key, group in report["groups"].items()}
    drawn = {name if key == "a" else key: group for key, group in report["group_diagrams"].items()}
    return report | {"map": name, "groups": groups, "gaps": gaps, "group_diagrams": drawn}


def _about(name: str) -> ReportSubject:
    return ReportSubject(
        name,
        "0.1.0",
        datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        inferred=(f"Column {name} was taken as the label.",),
        options=panel.full(300, None) | {"map": name, "api_key": "cal_secret", "batch": name},
        classes=(name, "b"),
        weights=f"frequency of {name}",
        map=name,
    )


@pytest.fixture(scope="module")
def plain(report: dict[str, Any]) -> str:
    return standalone(report, _about("a"))


_FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "\uff1d1",
    "=HYPERLINK('http://a')",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", _FORMULAS)
def test_a_spreadsheet_that_opens_a_report_computes_no_name(report: dict[str, Any], name: str) -> None:
    page = Page(standalone(_renamed(report, name), _about(name)))
    texts = [element.text.strip() for kind in _BLOCKS for element in page.all(kind)]
    assert [text for text in texts if text[:1] in "=+@-\uff1d" and text] == []
    assert sum(text.startswith("“") for text in texts) >= 3


@pytest.mark.parametrize("name", ["-1", "+0.5", "-1e-3", "a=b", "3-4"])
def test_names_that_are_no_formulas_are_shown_as_they_are(report: dict[str, Any], name: str) -> None:
    page = Page(standalone(_renamed(report, name), _about(name)))
    assert name in [element.text.strip() for element in page.all("th")]


#: Elements that a spreadsheet reads as cells, besides those with numbers.
_BLOCKS = ("th", "dd", "dt", "li", "p", "h1", "h2", "h3", "h4", "caption", "figcaption")


def test_the_page_is_one_file_without_other_sources_and_scripts(plain: str) -> None:
    page = Page(plain)
    assert page.all("script") == page.all("link") == page.all("iframe") == page.all("a") == []
    assert all(image.attributes["src"].startswith("data:image/svg+xml;base64,") for image in page.all("img"))
    assert "url(" not in plain
    assert "@import" not in plain
    assert not any(name.startswith("on") or name == "style" for e in page.elements for name in e.attributes)
    policy = next(e for e in page.all("meta") if e.attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy.attributes["content"].startswith("default-src 'none'")


def test_the_verdict_comes_first_and_headings_skip_no_rank(plain: str) -> None:
    page = Page(plain)
    ranks = [int(e.tag[1]) for e in page.elements if re.fullmatch(r"h[1-6]", e.tag)]
    assert ranks[0] == 1
    assert ranks.count(1) == 1
    assert all(later <= rank + 1 for rank, later in pairwise(ranks))
    assert "calibration rejected" in page.all("h1")[0].text
    assert page.all("h2")[0].text == "What this means for decisions"


def test_every_picture_says_its_figures_and_its_size(plain: str) -> None:
    images = Page(plain).all("img")
    assert len(images) >= 4
    for image in images:
        svg = base64.b64decode(image.attributes["src"].partition(",")[2]).decode("utf-8")
        assert f'width="{image.attributes["width"]}" height="{image.attributes["height"]}"' in svg
        assert re.search(r"\d", image.attributes["alt"])


def test_tables_have_captions_and_heads_with_a_scope(plain: str) -> None:
    page = Page(plain)
    assert len(page.all("table")) == len(page.all("caption")) == 3
    assert all(head.attributes["scope"] in ("row", "col") for head in page.all("th"))
    identities = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(set(identities)) == len(identities)
    labelled = {e.attributes["aria-labelledby"] for e in page.elements if "aria-labelledby" in e.attributes}
    assert labelled <= set(identities)
    assert page.all("html")[0].attributes["lang"] == "en"


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_no_element_or_attribute_is_made_of_a_name(name: str, plain: str, report: dict[str, Any]) -> None:
    page = standalone(_renamed(report, name), _about(name))
    assert Page(page).shape() == Page(plain).shape()
    for hidden in "\0\a\N{RIGHT-TO-LEFT OVERRIDE}\N{RIGHT-TO-LEFT ISOLATE}\N{ZERO WIDTH SPACE}\udfff\N{LINE SEPARATOR}":
        assert hidden not in page
    page.encode("utf-8")


def test_no_key_is_ever_shown(plain: str) -> None:
    assert "cal_secret" not in plain
    assert "api_key" not in plain


def test_the_fragment_is_the_same_article_without_a_page(plain: str, report: dict[str, Any]) -> None:
    inner = fragment(report, _about("a"))
    page = Page(inner)
    assert page.elements[0].tag == "article"
    assert "calibrant-report" in page.elements[0].attributes["class"]
    assert not page.all("html")
    assert not page.all("style")
    assert not page.all("h1")
    article = Page(plain).all("article")[0]
    assert article.text.split() == page.elements[0].text.split()


def test_the_same_numbers_make_the_same_bytes(plain: str, report: dict[str, Any]) -> None:
    assert standalone(json.loads(json.dumps(report)), _about("a")) == plain


@pytest.mark.parametrize("reduction", [None, "classwise", "canonical", "class:1", "pooled"])
def test_every_reduction_makes_a_page(reduction: str | None) -> None:
    p, labels = many_classes(n=300)
    report = report_of(p, labels, reduction)
    page = Page(standalone(report, replace(_about("a"), classes=("ant", "bee", "cat", "dog"))))
    assert page.all("h1")[0].text


def test_a_report_of_one_measure_makes_a_page() -> None:
    report = report_document(calibrant.evaluate([0.2, 0.8], [0, 1], measures=["brier"]), None)
    assert Page(standalone(report, ReportSubject("two rows", "0.1.0"))).all("h1")[0].text.startswith("No verdict")


def test_the_python_lines_of_a_report_make_its_numbers_again() -> None:
    p, y = draw("overconfident", 300)
    report = report_of(p, y)
    page = Page(standalone(report, ReportSubject("a.csv", "0.1.0", options=panel.full(300, None))))
    lines = page.all("pre")[-1].text
    scope: dict[str, Any] = {"predictions": p, "labels": y}
    exec(lines, scope)
    assert scope["report"].measures["ece"].interval == tuple(report["measures"]["ece"]["interval"])


def test_the_options_name_the_class_and_the_python_lines_run() -> None:
    p, labels = many_classes(n=300)
    names = ("ant", "bee", "cat", "dog")
    about = ReportSubject("a.csv", "0.1.0", options={"reduction": "class:2", "seed": 0}, classes=names)
    shown = reproduction(about)
    assert shown.options == [("Reduction", "class:cat"), ("Seed", "0")]
    assert '  "reduction": "class:2",' in shown.request
    scope: dict[str, Any] = {"predictions": p, "labels": labels}
    exec("\n".join(shown.python), scope)
    assert scope["report"].reduction == "class:2"


def _luminance(colour: str) -> float:
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_text_has_contrast_in_light_and_dark() -> None:
    schemes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in stylesheet().split("prefers-color-scheme")
    ]
    assert len(schemes) == 2
    for colours in schemes:
        for ink in ("ink", "soft", "rejected", "passed", "unknown"):
            for paper in ("paper", "panel"):
                light, dark = sorted((_luminance(colours[ink]), _luminance(colours[paper])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, paper)


def test_the_style_is_packed_with_the_room() -> None:
    assert Path(str(calibrant.reports.__file__)).with_name("templates").joinpath("report.css").is_file()
    assert np.all([line.count("{") <= 2 for line in stylesheet().splitlines()])
