from __future__ import annotations

from service.web.visitor import environment


def test_every_template_compiles() -> None:
    names = environment().list_templates(extensions=["html"])
    assert {"home.html", "base.html", "upload.html", "report.html", "job_state.html"} <= set(names)
    for name in names:
        assert environment().get_template(name).name == name
