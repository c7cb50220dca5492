"""The form of an upload cannot name files of the server."""

from __future__ import annotations

from starlette.datastructures import FormData

from service.web.upload import Choices


def test_a_form_cannot_join_a_file_of_the_server() -> None:
    form = FormData({"labels_from": "/etc/hostname", "ids": "id", "inner": "true", "labels": "y"})
    options = Choices.of(form).options()
    assert (options.labels_from, options.ids, options.inner) == (None, None, None)
    assert options.labels == "y"
