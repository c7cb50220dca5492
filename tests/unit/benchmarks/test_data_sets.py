"""Benchmarks read the files of predictions that their pages name."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import data_sets
from benchmarks.compare.data import classifiers, read_file
from benchmarks.data_sets import DIGESTS, PAGE, ChangedData, page, verified
from benchmarks.provenance import here


def test_the_page_of_data_sets_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run make reference"


def test_every_file_has_a_source_a_licence_and_a_digest() -> None:
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in DIGESTS.values())
    assert len(set(DIGESTS.values())) == len(DIGESTS)
    assert all(source.licence and "/" in source.repository for source in data_sets.DATA)


def test_a_file_with_a_known_name_and_another_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pycalib_kitti_XGBoost.npz"
    np.savez(path, labels=np.array([0, 1]), probs=np.eye(2))
    with pytest.raises(ChangedData, match=r"pycalib_kitti_XGBoost.npz is not the file of docs/benchmarks/data-sets.md"):
        read_file(path)
    with pytest.raises(ChangedData):
        classifiers(tmp_path)


def test_the_digest_of_a_file_belongs_to_the_origin_of_what_is_made_from_it(tmp_path: Path) -> None:
    path = tmp_path / "own-predictions.npz"
    np.savez(path, labels=np.array([0, 1]), probs=np.eye(2))
    assert read_file(path).labels.tolist() == [0, 1]
    assert here().data["own-predictions.npz"] == hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def test_a_known_file_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "known.npz"
    path.write_bytes(b"content")
    monkeypatch.setitem(DIGESTS, "known.npz", hashlib.sha256(b"content").hexdigest())
    assert verified(path) == path
