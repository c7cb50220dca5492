from __future__ import annotations

import pytest

from backend.store.registry.maps import MapReference, is_name, read_reference


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("map_0", MapReference("map_0")),
        ("m", MapReference(name="m")),
        ("a.b-c_D", MapReference(name="a.b-c_D")),
        ("m:1", MapReference(name="m", version="1")),
        ("m:999999999", MapReference(name="m", version="999999999")),
        ("m@champion", MapReference(name="m", alias="champion")),
        ("n" * 64 + "@" + "a" * 64, MapReference(name="n" * 64, alias="a" * 64)),
    ],
)
def test_the_four_forms_of_references_to_maps_are_distinguished(ref: str, expected: MapReference) -> None:
    assert read_reference(ref) == expected


@pytest.mark.parametrize("ref", ["map_0", "m:1"])
def test_ids_and_versions_mean_one_map_for_ever(ref: str) -> None:
    assert getattr(read_reference(ref), "exact", False)


@pytest.mark.parametrize("ref", ["m", "m@champion"])
def test_names_and_aliases_are_mutable_references(ref: str) -> None:
    assert not getattr(read_reference(ref), "exact", True)


HOSTILE = [
    "", ".", "..", "../etc", "a/b", "a\\b", ".hidden", "-m", "_m", "m\0", "\0", "m\n", " m", "m ", "m\u00e9", "\uff4d",
    "m%2f", "map_", "map_x:1", "map_x@a", "map_a/b", "map_" + "x" * 65, ":", "@", "m:", "m@", "m:0", "m:01", "m:-1",
    "m:+1", "m:1.0", "m:x", "m:1:1", "m:1@a", "m@a:1", "m@a@a", "m:1000000000", "m:\u0661", "n" * 65, "*", "m*", "m?",
]  # fmt: skip


@pytest.mark.parametrize("ref", HOSTILE)
def test_other_texts_are_no_references_to_maps(ref: str) -> None:
    assert read_reference(ref) is None


@pytest.mark.parametrize("text", [h for h in HOSTILE if h] + ["", "map_x", "m:1", "m@a"])
def test_names_are_plain_words_that_are_no_ids(text: str) -> None:
    assert not is_name(text)
    assert is_name("champion")
