"""Set maps: documents, hostile documents, logits, and the numbers of randomised sets."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant.core.errors import InvalidDocument
from calibrant.sets.scores import uniform_numbers
from tests.refusals import refused_at

Z, Y, _ = calibrant.logistic_normal(1000, n_classes=4, seed=0)
GROUPS = np.array(["north", "south"])[np.arange(1000) % 2]
FITS: dict[str, dict[str, Any]] = {
    "lac": {},
    "lac-class": {"conditional": "class", "class_names": ["a", "b", "c", "d"]},
    "lac-group": {"conditional": "group", "groups": GROUPS},
    "aps": {"method": "aps", "randomised": True, "allow_empty": False},
    "aps-cluster": {"method": "aps", "conditional": "cluster", "alpha": 0.2},
    "raps": {"method": "raps", "penalty": 0.1, "k_reg": 2},
}


@pytest.mark.parametrize("name", FITS)
def test_a_document_is_all_that_a_map_needs(name: str, tmp_path: Path) -> None:
    fitted = calibrant.fit_sets(Z, Y, scale="logit", **FITS[name])
    document = fitted.to_document()
    read = calibrant.load_sets(json.loads(json.dumps(document)))
    assert read == fitted
    assert read.to_document() == document
    others: dict[str, Any] = {"groups": GROUPS} if "groups" in FITS[name] else {}
    others |= {"seed": 3} if fitted.function.is_random else {}
    assert read.apply(Z, **others).to_lists() == fitted.apply(Z, **others).to_lists()
    fitted.save(tmp_path / "sets.json")
    assert calibrant.load_sets(tmp_path / "sets.json") == fitted
    assert "alpha" in repr(fitted)


def test_a_frame_of_labels_that_need_not_exclude_each_other_keeps_its_columns() -> None:
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(1)
    p = pandas.DataFrame(random.random((100, 3)), columns=["red", "round", "soft"])
    y = (random.random((100, 3)) < p).astype(int)
    fitted = calibrant.fit_sets(p, y, method="crc", alpha=0.2)
    sets = fitted.apply(p)
    assert sets.classes == ("red", "round", "soft")
    assert np.array_equal(sets.members, p.to_numpy() >= fitted.function.thresholds)
    with pytest.raises(calibrant.CalibrationError, match="columns of the predictions"):
        calibrant.fit_sets(p, y[["soft", "red", "round"]], method="crc")


def test_risk_control_refuses_another_number_of_labels_than_that_of_the_fit() -> None:
    p = np.random.default_rng(2).random((100, 3))
    y = (p > 0.5).astype(int)
    labels = calibrant.fit_sets(p, y, method="crc", alpha=0.2)
    event = calibrant.fit_sets(p[:, 0], y[:, 0], method="crc", alpha=0.2)
    for fitted, wrong, shape in ((labels, p[:, :2], r"\(n, 3\)"), (event, p, r"\(n,\)")):
        with refused_at("/predictions", calibrant.CalibrationError, match=shape):
            calibrant.load_sets(fitted.to_document()).apply(wrong)
    unknown = event.to_document()
    del unknown["parameters"]["n_labels"]  # as documents had it before
    assert calibrant.load_sets(unknown).apply(p).members.shape == (100, 3)


def test_logits_of_an_event_have_both_tails() -> None:
    z = np.concatenate([np.linspace(-60.0, 60.0, 99), [800.0, -800.0]])
    y = (z > 0).astype(int)
    y[:3] = 1
    fitted = calibrant.fit_sets(z, y, scale="logit", alpha=0.02)
    t = fitted.function.thresholds[0]
    assert 0.0 < t < 1e-20
    assert fitted.apply([-800.0, 0.0, 800.0]).to_lists() == [[0], [0, 1], [1]]


@given(seed=st.integers(0, 2**32 - 2), row=st.integers(0, 50))
def test_the_number_of_a_row_is_splitmix64(seed: int, row: int) -> None:
    mask = 2**64 - 1
    x = ((seed << 32) + row + 1) * 0x9E3779B97F4A7C15 & mask
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
    assert uniform_numbers(seed, row + 1)[row] == ((x ^ x >> 31) >> 11) / 2**53


def test_the_numbers_of_rows_are_uniform_and_differ_by_seed() -> None:
    u = np.concatenate([uniform_numbers(seed, 1000) for seed in range(20)])
    assert abs(u.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(u))
    assert len(np.unique(u)) == len(u)


# --- Hostile documents

DOCUMENT = calibrant.fit_sets(Z, Y, scale="logit", method="raps").to_document()
GROUPED = calibrant.fit_sets(Z, Y, scale="logit", conditional="group", groups=GROUPS).to_document()
EVENT = calibrant.fit_sets(np.linspace(0, 1, 40), np.arange(40) % 2, method="crc").to_document()
HOSTILE: list[tuple[dict[str, Any], str, Any, str]] = [
    (DOCUMENT, "format", 2, "/format"),
    (DOCUMENT, "family", "platt", "/family"),
    (DOCUMENT, "family", ["raps"], "/family"),
    (DOCUMENT, "reduction", "canonical", "/reduction"),
    (DOCUMENT, "method", "", "/method"),
    (DOCUMENT, "method", "aps", "/method"),
    (DOCUMENT, "scale", "percent", "/scale"),
    (DOCUMENT, "n_classes", 1, "/n_classes"),
    (DOCUMENT, "n_classes", True, "/n_classes"),
    (DOCUMENT, "n_classes", 10**9, "/n_classes"),
    (DOCUMENT, "class_names", ["a", "b"], "/class_names"),
    (DOCUMENT, "diagnostics", [], "/diagnostics"),
    (DOCUMENT, "parameters", None, "/parameters"),
    (DOCUMENT, "training_digest", "x", "/training_digest"),
    (DOCUMENT, "prediction_kind", "regression", "/prediction_kind"),
    (DOCUMENT, "parameters/alpha", 0.0, "/parameters/alpha"),
    (DOCUMENT, "parameters/alpha", 1.5, "/parameters/alpha"),
    (DOCUMENT, "parameters/by", "label", "/parameters/by"),
    (DOCUMENT, "parameters/by", "class", "/parameters/thresholds"),
    (DOCUMENT, "parameters/by", "group", "/parameters/groups"),
    (DOCUMENT, "parameters/thresholds", [], "/parameters/thresholds"),
    (DOCUMENT, "parameters/thresholds", [0.5, 0.5], "/parameters/thresholds"),
    (DOCUMENT, "parameters/thresholds", [float("nan")], "/parameters/thresholds/0"),
    (DOCUMENT, "parameters/thresholds", [-1.0], "/parameters/thresholds/0"),
    (DOCUMENT, "parameters/thresholds", ["0.5"], "/parameters/thresholds/0"),
    (DOCUMENT, "parameters/allow_empty", 1, "/parameters/allow_empty"),
    (DOCUMENT, "parameters/randomised", None, "/parameters/randomised"),
    (DOCUMENT, "parameters/penalty", 1e300, "/parameters/penalty"),
    (DOCUMENT, "parameters/k_reg", -1, "/parameters/k_reg"),
    (DOCUMENT, "parameters/k_reg", 1.5, "/parameters/k_reg"),
    (DOCUMENT, "parameters/k_reg", 100_001, "/parameters/k_reg"),
    (GROUPED, "parameters/groups", ["a", "a"], "/parameters/groups"),
    (GROUPED, "parameters/groups", ["a", 1], "/parameters/groups/1"),
    (GROUPED, "parameters/groups", ["a", "b" * 300], "/parameters/groups/1"),
    (GROUPED, "parameters/groups", ["a", "b", "c"], "/parameters/thresholds"),
    (GROUPED, "parameters/groups", "ab", "/parameters/groups"),
    (GROUPED, "parameters/thresholds", [0.5, 1.5], "/parameters/thresholds/1"),
    (EVENT, "n_classes", 2, "/n_classes"),
    (EVENT, "parameters/by", "class", "/parameters/by"),
    (EVENT, "parameters/loss", "miscoverage", "/parameters/loss"),
    (EVENT, "parameters/n_labels", 0, "/parameters/n_labels"),
    (EVENT, "parameters/n_labels", 2.5, "/parameters/n_labels"),
]


@pytest.mark.parametrize(("document", "place", "damage", "pointer"), HOSTILE)
def test_an_invalid_document_is_refused_at_its_first_invalid_place(
    document: dict[str, Any], place: str, damage: Any, pointer: str
) -> None:
    changed = json.loads(json.dumps(document))
    *path, name = place.split("/")
    target = changed
    for part in path:
        target = target[part]
    target[name] = damage
    with refused_at(pointer, InvalidDocument):
        calibrant.load_sets(changed)


@given(
    document=st.dictionaries(
        st.sampled_from([*DOCUMENT, "prediction_kind"]),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.sampled_from(["raps", "sets", "logit"]),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["alpha", "by"]), inner),
            max_leaves=5,
        ),
    )
)
def test_any_json_is_a_map_or_is_refused(document: dict[str, Any]) -> None:
    with contextlib.suppress(InvalidDocument):
        assert calibrant.load_sets({**DOCUMENT, **document}).function.family in calibrant.SET_METHODS


def test_each_reader_names_the_reader_of_the_other_maps() -> None:
    with pytest.raises(InvalidDocument, match="which load_sets reads"):
        calibrant.load(DOCUMENT)
    platt = calibrant.fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]).to_document()
    with pytest.raises(InvalidDocument, match="must be one of: lac"):
        calibrant.load_sets(platt)
