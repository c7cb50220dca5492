"""The documentation site: ``make docs`` builds it offline, with warnings as errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import calibrant

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Calibrant"
project_copyright = "the Calibrant developers"
version = release = calibrant.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates"]

# Every heading down to ### has an anchor; <img> of the generated gallery is read as an image.
myst_enable_extensions = ["dollarmath", "html_image"]
myst_heading_anchors = 4
# Tutorials run when the site is built. Executed notebooks are kept in _build, so that a second build is quick.
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "Calibrant"
html_static_path = ["_static"]
html_js_files = ["site.js"]
html_search_scorer = str(Path(__file__).parent / "search_scorer.js")
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def _skip(_app: object, _kind: str, name: str, _value: object, skip: bool, _options: object) -> bool:
    """Leave out the methods that scikit-learn adds for metadata routing: their text links to its own site."""
    return skip or (name.startswith("set_") and name.endswith("_request"))


def setup(app: Sphinx) -> None:
    app.connect("autodoc-skip-member", _skip)
