"""The command that adds the bounds of a Venn-Abers map, in this process and on a server."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import pytest

import calibrant
from service.stack import Stack
from tests.commands import invoked, succeeded
from tests.integration.responses import body_of

P = np.linspace(0.02, 0.98, 60)
FITTED = calibrant.fit("venn-abers", P, (np.random.default_rng(2).random(60) < P).astype(int))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("id,p\n" + "".join(f"{i},{p!r}\n" for i, p in enumerate(P.tolist())), "utf-8")
    FITTED.save(tmp_path / "map.json")
    calibrant.fit("platt", P, (P > 0.5).astype(int) ^ (np.arange(60) % 7 == 0)).save(tmp_path / "platt.json")
    return tmp_path / "rows.csv"


@pytest.mark.parametrize("on_server", [False, True])
def test_the_command_adds_both_probabilities(service: Stack, file: Path, on_server: bool) -> None:
    where, output = [str(file.with_name("map.json"))], file.with_name("out.csv")
    if on_server:
        with httpx.Client(base_url=service.url, timeout=600) as http:
            answer = http.post("/maps/import", json={"document": FITTED.to_document()})
            where = [body_of(answer, 201)["id"], "--server", service.url]
    succeeded(None, "calibrate", file, "--bounds", "--out", output, "--map", *where)
    table = np.genfromtxt(output, delimiter=",", names=True)
    assert table.dtype.names == ("id", "p", "calibrated", "calibrated_p0", "calibrated_p1")
    low, high = FITTED.bounds(P)
    for name, expected in (("", FITTED.apply(P)), ("_p0", low), ("_p1", high)):
        np.testing.assert_allclose(table[f"calibrated{name}"], expected, rtol=0, atol=1e-15)


def test_other_maps_have_no_bounds(file: Path) -> None:
    done = invoked(None, "calibrate", file, "--bounds", "--map", str(file.with_name("platt.json")))
    assert done.exit_code == 2
    assert "--bounds" in done.output
