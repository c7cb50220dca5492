from __future__ import annotations

from service.web.environment import environment, load


def test_every_template_is_compiled_before_anyone_comes() -> None:
    environment.cache_clear()
    load()
    cache = environment().cache
    assert cache is not None
    compiled = {name for _, name in cache}
    assert {"home.html", "base.html", "upload.html", "report.html", "job_state.html"} <= compiled
    assert set(environment().list_templates(extensions=["html"])) == compiled
