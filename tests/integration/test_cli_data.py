"""The commands about data against a server, which answers what this process would answer, to the last digit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from service.stack import Stack
from tests.commands import invoked, same_output
from tests.integration.threads import in_thread

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(1)
    p = generator.uniform(size=200)
    y = (generator.uniform(size=200) < p**2).astype(int)
    sites = generator.choice(["north", "south"], size=200)
    path = tmp_path_factory.mktemp("cli") / "preds.csv"
    rows = [f"{y[i]},{p[i]:.6f},{sites[i]}" for i in range(200)]
    path.write_text("\n".join(["y,p,site", *rows, ""]), encoding="utf-8")
    return path


@pytest.fixture
def here() -> Run:
    """The command without a server."""
    return lambda *arguments: invoked(None, *arguments)


@pytest.fixture
def there(service: Stack) -> Run:
    """The command with the server, which the environment names."""
    return lambda *arguments: invoked(service.url, *arguments)


def test_a_class_whose_name_is_a_number_is_another_with_a_server(here: Run, there: Run, tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    p = generator.dirichlet(np.ones(3), 300).round(3)
    p[:, 2] = 1.0 - p[:, 0] - p[:, 1]
    y = (generator.uniform(size=(300, 1)) > p.cumsum(axis=1)).sum(axis=1) + 1
    rows = [f"{y[i]},{p[i, 0]:.3f},{p[i, 1]:.3f},{p[i, 2]:.3f}" for i in range(300)]
    stars = tmp_path / "stars.csv"
    stars.write_text("\n".join(["y,p_1,p_2,p_3", *rows, ""]))
    for words in (["evaluate", "--measure", "brier"], ["decide", "--capacity", "5"], ["decide", "--thresholds", "0.5"]):
        command = [words[0], stars, "--reduction", "class:2", *words[1:], "--json"]
        answers = [json.loads(run(*command).stdout) for run in (here, there)]
        assert answers[0] == answers[1]
        if "--thresholds" in words:
            assert answers[0]["prevalence"] == pytest.approx(np.mean(y == 2))
        elif words[0] == "evaluate":
            brier = answers[0]["measures"]["brier"]["value"]
            assert brier == pytest.approx(np.mean((p[:, 1] - (y == 2)) ** 2))


@pytest.mark.parametrize(
    "asked",
    [
        ["evaluate"],
        ["evaluate", "--group", "site", "--interval", "0.9", "--resamples", "100", "--measure", "ece", "--seed", "3"],
        ["evaluate", "--measure", '{"name": "ece-pl", "candidates": [2, 1]}', "--measure", "decomposition"],
        ["evaluate", "--cluster", "site", "--interval", "0.9", "--measure", "brier"],
        ["evaluate", "--cluster", "site", "--interval", "0.9", "--measure", "brier", "--cluster-variance", "cr0"],
        ["fit", "--method", "isotonic"],
        ["fit", "--method", "pl", "--seed", "5"],
    ],
    ids=" ".join,
)
def test_the_command_answers_the_same_with_and_without_a_server(service: Stack, csv: Path, asked: list[str]) -> None:
    command, *flags = asked
    assert same_output(service.url, command, csv, *flags, "--json")


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--diagram", "ks-graphs", "--theme", "dark", "--width", "400"],
        ["--diagram", "by-size", "--seed", "3"],
        ["--diagram", '{"name": "fit-on-test", "method": "pl", "folds": 2}', "--interval", "0.9"],
        ["--diagram", "pie"],
        ["--diagram", '{"name": "by-size", "start": 200}'],
        ["--diagram", "by-size", "--reduction", "canonical"],
        ["--reduction", "canonical"],
    ],
    ids=" ".join,
)
def test_the_command_draws_the_same_picture_with_and_without_a_server(
    here: Run, there: Run, csv: Path, flags: list[str]
) -> None:
    local, other = (run("diagram", csv, *flags, "--out", "-") for run in (here, there))
    assert (local.exit_code, local.stdout_bytes) == (other.exit_code, other.stdout_bytes)
    assert local.exit_code == 1 or local.stdout_bytes.startswith(b"<svg")


@pytest.mark.parametrize(
    "asked",
    [
        ["--measure", "nope"],
        ["--measure", '{"name": "ece-pl", "candidates": [2, 2]}'],
        ["--reduction", "top:2"],
        ["--interval", "2"],
        ["--label", "z"],
    ],
    ids=" ".join,
)
def test_the_command_refuses_the_same_with_and_without_a_server(
    here: Run, there: Run, csv: Path, asked: list[str]
) -> None:
    answers = [run("evaluate", csv, *asked) for run in (here, there)]
    assert [answer.exit_code for answer in answers] == [1, 1]
    assert answers[0].stderr == answers[1].stderr


def test_the_registry_names_the_classes_of_vectors_and_of_one_event(there: Run, csv: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(3), 90)
    labels = np.array(["bird", "cat", "dog"])[(p.cumsum(axis=1) > random.random((90, 1))).argmax(axis=1)]
    rows = "\n".join(",".join(map(str, [label, *row])) for label, row in zip(labels, p, strict=True))
    (tmp_path / "pets.csv").write_text(f"label,prob_bird,prob_cat,prob_dog\n{rows}\n", "utf-8")
    assert there("fit", tmp_path / "pets.csv", "--method", "temperature", "--name", "cli-animals").exit_code == 0
    assert there("fit", csv, "--method", "platt", "--name", "cli-two", "--class-names", "0,1").exit_code == 0
    listed = there("maps", "list").stdout
    assert re.search(r"cli-animals:1 .* canonical +bird, cat, dog +90", listed)
    assert re.search(r"cli-two:1 .* binary +0, 1 ", listed)
    shown = there("maps", "show", "cli-animals:1").stdout
    assert re.search(r"classes +bird, cat, dog\n", shown)
    assert re.search(r"log loss, in-sample .* \(of the whole vector\)", shown)
    assert re.search(r"plain ece, in-sample .* \(of the confidence\)", shown)


@pytest.mark.slow
def test_a_map_goes_through_its_life(there: Run, here: Run, csv: Path, tmp_path: Path) -> None:
    for version in (1, 2):
        fitted = there("fit", csv, "--method", "beta", "--name", "cli-life")
        assert (fitted.exit_code, fitted.stdout) == (0, f"cli-life:{version}\n")
    assert there("maps", "alias", "cli-life", "champion", "1").stdout == "cli-life@champion cli-life:1\n"
    listed = json.loads(there("maps", "list", "--name", "cli-life", "--json").stdout)
    assert [(version["version"], version["aliases"]) for version in listed] == [(2, []), (1, ["champion"])]
    assert listed[0]["id"] in there("maps", "list").stdout
    assert "beta" in there("maps", "show", "cli-life:2").stdout

    shown = there("maps", "show", "cli-life:2").stdout
    assert re.search(r"plain ece, in-sample +\S+ -> \S+ \(of the event binary\)", shown)

    document = tmp_path / "map.json"
    assert there("maps", "export", "cli-life@champion", "--out", document).exit_code == 0
    assert there("maps", "export", "cli-life:1").stdout == document.read_text("utf-8")
    by_server, by_file = (
        there("calibrate", csv, "--map", "cli-life@champion"),
        here("calibrate", csv, "--map", document),
    )
    assert by_server.stdout == by_file.stdout != ""

    assert there("maps", "import", document, "--name", "cli-copy").stdout == "cli-copy:1\n"
    refused = there("maps", "delete", "cli-life")
    assert (refused.exit_code, refused.stderr.split(":")[1].strip()) == (1, "the map")
    assert there("maps", "delete", "cli-life:2").exit_code == 0
    gone = there("maps", "show", "cli-life:2")
    assert (gone.exit_code, gone.stdout) == (1, "")


def test_measures_before_and_after_a_stored_map_are_printed(there: Run, csv: Path) -> None:
    there("fit", csv, "--method", "beta", "--name", "cli-after")
    shown = there("evaluate", csv, "--map", "cli-after", "--measure", "ece")
    assert shown.exit_code == 0
    assert "The map was fitted to these rows" in shown.stdout
    unknown = there("evaluate", csv, "--map", "cli-nowhere")
    message = "calibrant: --map: there is no map with this reference"
    assert (unknown.exit_code, unknown.stderr.splitlines()[-1]) == (1, message)


def test_a_file_of_a_map_is_not_sent_along(there: Run, csv: Path) -> None:
    refused = there("evaluate", csv, "--map", "map.json")
    assert refused.exit_code == 2
    assert "calibrant maps import map.json" in " ".join(refused.stderr.replace("│", " ").split())


def test_a_server_that_is_not_calibrant_has_a_different_error_from_a_refusal(csv: Path) -> None:
    with in_thread(HTTPServer(("127.0.0.1", 0), _Stranger)) as stranger:
        refused = invoked(f"http://127.0.0.1:{stranger.server_port}", "evaluate", csv)
    assert refused.exit_code == 3
    assert refused.stderr.splitlines()[-1].startswith("calibrant: Error without a problem document")


class _Stranger(BaseHTTPRequestHandler):
    """Another server, which knows of nothing."""

    def do_POST(self) -> None:
        """Answer 404 with a page of its own."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_names_of_classes_are_sent_and_the_shape_of_a_name_is_kept(there: Run, csv: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    rows = generator.dirichlet(np.ones(3), 200)
    labels = [("bird", "cat", "dog")[generator.choice(3, p=row)] for row in rows]
    pets = tmp_path / "pets.csv"
    lines = [f"{label},{','.join(f'{p:.6f}' for p in row)}" for label, row in zip(labels, rows.tolist(), strict=True)]
    pets.write_text("\n".join(["species,bird,cat,dog", *lines, ""]), encoding="utf-8")
    assert there("fit", pets, "--method", "temperature", "--name", "cli-pets").exit_code == 0
    assert json.loads(there("maps", "export", "cli-pets").stdout)["class_names"] == ["bird", "cat", "dog"]
    assert there("evaluate", pets, "--map", "cli-pets").exit_code == 0
    refused = there("fit", csv, "--method", "platt", "--name", "cli-pets")
    assert refused.exit_code == 1
    assert refused.stderr.endswith(
        "returns shape (n, 3), and this map would return (n,); to allow it, add --allow-shape-change\n"
    )
    allowed = there("fit", csv, "--method", "platt", "--name", "cli-pets", "--allow-shape-change")
    assert (allowed.exit_code, allowed.stdout) == (0, "cli-pets:2\n")
    document = tmp_path / "pets.json"
    there("maps", "export", "cli-pets:1", "--out", document)
    assert there("maps", "import", document, "--name", "cli-pets").exit_code == 1
    assert there("maps", "import", document, "--name", "cli-pets", "--allow-shape-change").stdout == "cli-pets:3\n"
