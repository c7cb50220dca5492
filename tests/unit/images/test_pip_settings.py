"""Settings of pip on this machine as a build sees them."""

from __future__ import annotations

from pathlib import Path

from tests.images.pip_settings import of_listing


def test_a_variable_overrides_a_file_and_settings_without_paths_are_left_out() -> None:
    listed = (
        ":env:.index-url='https://b.example/simple'\n:env:.no-input='1'\nglobal.index-url='https://a.example/simple'\n"
    )
    assert of_listing(listed) == ("[global]\nindex-url = https://b.example/simple\n", {})


def test_a_path_is_mounted_under_another_and_of_an_index_its_parent(tmp_path: Path) -> None:
    (tmp_path / "index" / "simple").mkdir(parents=True)
    listed = (
        f"global.find-links='{tmp_path}'\nglobal.extra-index-url='file://{tmp_path}/index/simple https://c.example'\n"
    )
    mounted = of_listing(listed)
    assert mounted.text == (
        "[global]\nfind-links = /run/pip/0\nextra-index-url = file:///run/pip/1/simple https://c.example\n"
    )
    assert mounted.mounts == {tmp_path: "/run/pip/0", tmp_path / "index": "/run/pip/1"}


def test_a_missing_path_is_unchanged() -> None:
    assert of_listing("install.cert='/nowhere/ca.crt'\n") == ("[global]\ncert = /nowhere/ca.crt\n", {})
