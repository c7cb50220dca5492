from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from schemas.aliases import AliasRecord
from service.errors import PreconditionFailed, RequestError
from service.headers import Conditions, EntityTag, Tags, entity_tag, entity_tag_of, read_tags, weak_tag

RECORD = AliasRecord(name="m", alias="a", version=1, map="map_0", revision=1, updated_at="2026-01-01T00:00:00.000Z")
TAG = str(entity_tag_of(RECORD))


def _strong(*opaque: str) -> tuple[EntityTag, ...]:
    return tuple(EntityTag(False, tag) for tag in opaque)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], None),
        (["*"], "*"),
        ([" * "], "*"),
        (['"a"'], _strong("a")),
        (['""'], _strong("")),
        (['W/"a"'], (EntityTag(True, "a"),)),
        (['"a", "b"'], _strong("a", "b")),
        (['"a","b"'], _strong("a", "b")),
        (['"a" \t,\t "b"'], _strong("a", "b")),
        ([', ,"a",, "b",'], _strong("a", "b")),
        (['"a"', 'W/"b"'], (EntityTag(False, "a"), EntityTag(True, "b"))),
        (['"a,b"'], _strong("a,b")),
        (['"\xff!#"'], _strong("\xff!#")),
        (['"it\'s\\"'], _strong("it's\\")),
    ],
)
def test_lists_of_entity_tags_are_read(lines: list[str], expected: Tags) -> None:
    assert read_tags(lines, "If-Match") == expected


@pytest.mark.parametrize(
    "line", ["", ",", "a", '"a', 'a"', "'a'", 'w/"a"', 'W/ "a"', 'W"a"', '"a" "b"', '"a";"b"', '*, "a"', '"a", *', "**",
             '"a b"', '"a\x7f"', '"a"x', 'W/*', '"a"' + "," * 60_000 + "x"]
)  # fmt: skip
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(RequestError):
        read_tags([line], "If-None-Match")


@pytest.mark.parametrize(
    ("headers", "passes", "passes_without"),
    [
        ({}, True, True),
        ({"If-Match": TAG}, True, False),
        ({"If-Match": "*"}, True, False),
        ({"If-Match": '"other"'}, False, False),
        ({"If-Match": f'"other", {TAG}'}, True, False),
        ({"If-Match": f"W/{TAG}"}, False, False),
        ({"If-None-Match": "*"}, False, True),
        ({"If-None-Match": TAG}, False, True),
        ({"If-None-Match": f"W/{TAG}"}, False, True),
        ({"If-None-Match": '"other"'}, True, True),
        ({"If-Match": TAG, "If-None-Match": '"other"'}, True, False),
        ({"If-Match": TAG, "If-None-Match": TAG}, False, False),
    ],
)
def test_a_change_goes_on_where_its_conditions_hold(
    headers: dict[str, str], passes: bool, passes_without: bool
) -> None:
    conditions = Conditions.of(Headers(headers))
    for current, expected in ((RECORD, passes), (None, passes_without)):
        try:
            conditions.require(current)
        except PreconditionFailed:
            assert not expected
        else:
            assert expected


BODY = b'{"a":1}'


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"If-None-Match": entity_tag(BODY)}, 304),
        ({"If-None-Match": f"W/{entity_tag(BODY)}"}, 304),
        ({"If-None-Match": f'"x", {entity_tag(BODY)}'}, 304),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"x"'}, 200),
        ({"If-Match": entity_tag(BODY)}, 200),
    ],
)
def test_a_read_answers_304_where_the_caller_has_it(headers: dict[str, str], status: int) -> None:
    response = Conditions.of(Headers(headers)).answer(BODY)
    assert response.status_code == status
    assert response.headers["etag"] == entity_tag(BODY)
    assert response.body == (BODY if status == 200 else b"")


def test_a_read_of_another_state_than_was_asked_for_fails() -> None:
    with pytest.raises(PreconditionFailed):
        Conditions.of(Headers({"If-Match": f"W/{entity_tag(BODY)}"})).answer(BODY)


def test_tags_differ_where_a_byte_does() -> None:
    assert entity_tag(b"a") != entity_tag(b"b")
    assert entity_tag_of(RECORD) != entity_tag_of(RECORD.model_copy(update={"revision": 2}))
    assert entity_tag_of(None) is None


def test_a_weak_tag_matches_reads_and_never_changes() -> None:
    tag = weak_tag("a", 1)
    assert tag.startswith('W/"')
    assert tag != weak_tag("a", 2)
    for header in (tag, tag.removeprefix("W/"), "*"):
        known = Conditions(none_match=read_tags([header], "If-None-Match")).known(tag)
        assert known is not None
        assert (known.status_code, known.headers["etag"]) == (304, tag)
    assert Conditions(none_match=read_tags(['"other"'], "If-None-Match")).known(tag) is None
    with pytest.raises(PreconditionFailed):
        Conditions(match=read_tags([tag], "If-Match")).known(tag)
