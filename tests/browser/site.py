"""``python -m tests.browser.site FOLDER``: axe-core on the built documentation site, light and dark."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.checks import grave_violations
from tests.browser.chromium import find_chromium, flags

#: Pages of the theme, and folders of which one page stands for all: they come from one template, or are long tables.
_THEME = ("genindex", "search", "py-modindex", "_modules")
_SAMPLES = {
    "reference/generated": "calibrant.evaluate",
    "benchmarks": "index",
    "adr": "0035-documentation-site",
    "reference": "problems",
}


def violations(folder: Path) -> list[str]:
    """Every serious violation, with its page; and every page that is wider than a phone."""
    lines = []
    with sync_playwright() as playwright:
        path = find_chromium(playwright.chromium)
        with playwright.chromium.launch(executable_path=path, args=flags()) as browser:
            page = browser.new_page(viewport={"width": 390, "height": 844})
            for file in sorted(set(folder.rglob("*.html")) - set(folder.glob("_static/**/*.html"))):
                name = file.relative_to(folder).as_posix()
                if name.startswith(_THEME) or file.stem != _SAMPLES.get(Path(name).parent.as_posix(), file.stem):
                    continue
                page.set_viewport_size({"width": 390, "height": 844})
                page.emulate_media(color_scheme="light")
                page.goto(file.resolve().as_uri())
                if page.evaluate("document.documentElement.scrollWidth") > 390:
                    lines.append(f"{name}: wider than 390 px")
                page.set_viewport_size({"width": 1280, "height": 900})
                lines += [f"{name}: {violation}" for violation in grave_violations(page)]
                page.emulate_media(color_scheme="dark")
                page.add_style_tag(content="* {transition: none !important}")  # the theme fades between the schemes
                lines += [f"{name}, dark: {violation}" for violation in grave_violations(page, contrast_alone=True)]
    return lines


if __name__ == "__main__":
    sys.exit("\n".join(violations(Path(sys.argv[1]))) or 0)
