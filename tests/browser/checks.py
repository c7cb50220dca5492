"""Checks of a page: whom it shuts out (axe-core), and what of it jumps while it loads."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

_GRAVE = ("serious", "critical")
_THERE = "() => typeof axe !== 'undefined'"
#: Runs axe. Its check of the contrast takes most of its time: it looks at text by text, and what it finds follows from
#: the styles of an element and of those around it. Of the texts with equal styles it gets the first, the middle and the
#: last one.
_RUN = """async contrastAlone => {
  const PROPERTIES = ['color', 'backgroundColor', 'backgroundImage', 'opacity', 'fontSize', 'fontWeight', 'textShadow',
    'position', 'zIndex', 'filter', 'mixBlendMode', 'webkitTextFillColor', 'overflow'];
  const styles = new Map(), texts = new Map();
  const styleOf = (element, pseudo) => {
    const style = getComputedStyle(element, pseudo);
    return pseudo && style.content === 'none' ? '' : PROPERTIES.map(name => style[name]).join();
  };
  const walk = (element, around) => {
    const disabled = element.matches(':disabled, [aria-disabled=true]') || element.control?.disabled;
    const own = [around, element.localName, disabled, ...[null, '::before', '::after'].map(at => styleOf(element, at))];
    const style = own.join('|');
    if (!styles.has(style)) styles.set(style, styles.size);
    const text = [...element.childNodes].filter(node => node.nodeType === Node.TEXT_NODE)
      .map(node => node.data).join('').trim() || element.value || element.placeholder || '';
    if (text && element.checkVisibility({visibilityProperty: true, opacityProperty: true})) {
      const key = styles.get(style) + (String(text).length > 1 ? ' text' : ' letter');
      texts.set(key, [...texts.get(key) ?? [], element]);
    }
    for (const child of element.children) walk(child, styles.get(style));
  };
  const violations = [];
  const run = async (context, options) => {
    violations.push(...(await axe.run(context, {resultTypes: ['violations'], ...options})).violations);
  };
  if (!contrastAlone) await run(document, {rules: {'color-contrast': {enabled: false}}});
  walk(document.body, '');
  const include = new Set([...texts.values()].flatMap(all => [all[0], all[all.length >> 1], all.at(-1)]));
  if (include.size) await run({include: [...include]}, {runOnly: ['color-contrast']});
  return violations;
}"""
#: The sum of all shifts of the layout since the page began, those behind a person's own touch left out.
_SHIFTS = """() => new Promise(resolve => {
  let sum = 0;
  const add = list => { for (const e of list.getEntries()) if (!e.hadRecentInput) sum += e.value; };
  const observer = new PerformanceObserver(add);
  observer.observe({type: 'layout-shift', buffered: true});
  requestAnimationFrame(() => requestAnimationFrame(() => {
    for (const e of observer.takeRecords()) if (!e.hadRecentInput) sum += e.value;
    resolve(sum);
  }));
})"""

#: The cells of tables that are outside the page, cut off by a frame, or outside their own table.
CUT = """() => [...document.querySelectorAll('table')].flatMap(table =>
  [...table.querySelectorAll('tbody th, tbody td')].filter(cell => {
    const box = cell.getBoundingClientRect();
    if (!box.width || !box.height) return false;
    const frame = cell.closest('.scroll, .wide') || document.documentElement;
    const end = Math.min(frame.getBoundingClientRect().right, document.documentElement.clientWidth);
    return box.right > end + 1 || box.left < -1 || cell.scrollWidth > cell.clientWidth + 1;
  }).map(cell => cell.textContent.trim().slice(0, 60)))"""

#: Waits until every picture of a page can be seen; a page's policy forbids to look for it by text that is evaluated.
DECODED = "() => Promise.all([...document.images].map(image => image.decode()))"


def grave_violations(page: Page, *, contrast_alone: bool = False) -> list[str]:
    """The serious and critical violations of a page, each with where it is and why; of all rules or of the contrast.

    Of what a colour scheme changes, rules see the contrast alone.
    """
    if not page.evaluate(_THERE):
        page.evaluate(AXE_SCRIPT)
    violations: list[dict[str, Any]] = page.evaluate(_RUN, contrast_alone)
    return [
        f"{violation['id']} at {' '.join(map(str, node['target']))}: {node['failureSummary']}"
        for violation in violations
        if violation["impact"] in _GRAVE
        for node in violation["nodes"]
    ]


def layout_shift(page: Page) -> float:
    """How much of a page moved by itself since it began to load; 0 is a page that stands still."""
    shift: float = page.evaluate(_SHIFTS)
    return shift
