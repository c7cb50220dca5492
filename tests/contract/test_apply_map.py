"""Documents are enough: scripts in docs/ that use a language's standard library alone apply them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import playwright
import pytest

import calibrant
from calibrant.core.batch import Scale
from calibrant.distributions.forecasts import FIELDS, Forecasts
from calibrant.distributions.maps.distribution_map import DistributionMap

#: The Node.js of the browser's driver, which every environment of the tests has.
NODE = Path(playwright.__file__).parent / "driver" / "node"
DOCS, STORED = Path(__file__).parents[2] / "docs" / "how-to", Path(__file__).parent / "stored"
FILES = sorted(STORED.glob("map-*.json"))
DISTRIBUTIONS = sorted(STORED.glob("distribution-*.json"))
COMMANDS = {
    "python": [sys.executable, "-S", "-I", str(DOCS / "apply_map.py")],
    "ecmascript": [str(NODE), str(DOCS / "apply_map.mjs")],
}


#: Programs that load a script once and apply a map a line: its document, rows, and the seed or None. They answer with
#: the exit status, output and errors that a run of the script would have.
_PYTHON = f"""
import contextlib, io, json, sys, tempfile, traceback
code = compile(open({str(DOCS / "apply_map.py")!r}).read(), "apply_map.py", "exec")
for line in sys.stdin:
    document, rows, *arguments = json.loads(line)
    output, errors, status, lines = io.StringIO(), io.StringIO(), 0, sys.stdin
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        sys.argv, sys.stdin = ["apply_map.py", file.name, *arguments], io.StringIO(json.dumps(rows))
        with contextlib.redirect_stdout(output):
            try:
                exec(code, {{"__name__": "__main__"}})
            except BaseException:
                status = 1
                errors.write(traceback.format_exc())
    sys.stdin = lines
    print(json.dumps([status, output.getvalue(), errors.getvalue()]), flush=True)
"""
_ECMASCRIPT = f"""
import {{ apply, at }} from {json.dumps((DOCS / "apply_map.mjs").as_uri())};
import {{ createInterface }} from "node:readline";
for await (const line of createInterface({{ input: process.stdin }})) {{
  const [stored, rows, ...options] = JSON.parse(line);
  const level = options.find((text) => text.startsWith("alpha="));
  const seed = options.find((text) => text !== level);
  try {{
    const document = level ? at(stored, Number(level.slice(6))) : stored;
    console.log(JSON.stringify([0, JSON.stringify(rows.map((row, i) => apply(document, row, seed, i))), ""]));
  }} catch (error) {{
    console.log(JSON.stringify([1, "", error.stack]));
  }}
}}
"""
_LOADED: dict[str, subprocess.Popen[str]] = {}


@pytest.fixture(scope="module", autouse=True)
def loaded() -> Iterator[None]:
    """Both scripts, loaded for all maps of this file; other tests of it run them as the guide says."""
    commands = {
        "python": [sys.executable, "-S", "-I", "-c", _PYTHON],
        "ecmascript": [str(NODE), "--input-type=module", "-e", _ECMASCRIPT],
    }
    with contextlib.ExitStack() as running:
        for script, command in commands.items():
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            _LOADED[script] = running.enter_context(process)
        yield


def _run(script: str, document: Any, rows: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    process = _LOADED[script]
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([document, rows, *arguments]) + "\n")
    process.stdin.flush()
    return subprocess.CompletedProcess(COMMANDS[script], *json.loads(process.stdout.readline()))


@pytest.mark.parametrize("script", COMMANDS)
def test_a_script_reads_a_file_rows_and_a_seed_and_ends_with_an_error_if_it_refuses(
    script: str, tmp_path: Path
) -> None:
    stored = json.loads((STORED / "sets-v1-aps.json").read_text("utf-8"))
    (tmp_path / "map.json").write_text(json.dumps(stored["document"]), "utf-8")
    command = [*COMMANDS[script], str(tmp_path / "map.json")]
    rows = json.dumps(stored["predictions"])
    seeded = [*command, str(stored["seed"])]
    done = subprocess.run(seeded, input=rows, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == stored["sets"]
    refused = subprocess.run(command, input=rows, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "needs a seed" in refused.stderr


def _applied(script: str, path: Path) -> None:
    stored = json.loads(path.read_text("utf-8"))
    rows = _of_features(stored["predictions"], stored.get("features"))
    done = _run(script, stored["record"]["document"], rows)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout), stored["calibrated"], rtol=0, atol=1e-12)


def _of_features(predictions: list[Any], features: dict[str, list[Any]] | None) -> list[Any]:
    """Rows as the scripts take them: with features, if the map has some."""
    if features is None:
        return predictions
    columns = zip(*features.values(), strict=True)
    return [
        {"prediction": p, "features": dict(zip(features, row, strict=True))}
        for p, row in zip(predictions, columns, strict=True)
    ]


@pytest.mark.parametrize("script", COMMANDS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_scripts_apply_every_stored_document(path: Path, script: str) -> None:
    _applied(script, path)


@pytest.mark.parametrize("script", COMMANDS)
def test_the_scripts_apply_a_map_of_segments_without_terms(script: str) -> None:
    stored = json.loads((STORED / "map-v1-segments.json").read_text("utf-8"))
    document = stored["record"]["document"]
    document["parameters"]["terms"] = []
    rows = _of_features(stored["predictions"], stored["features"])
    done = _run(script, document, rows)
    expected = calibrant.load(document).apply(stored["predictions"], features=stored["features"])
    np.testing.assert_allclose(json.loads(done.stdout), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize("script", COMMANDS)
def test_the_scripts_give_the_bounds_of_a_venn_abers_map(script: str, scale: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    p = random.random(200)
    scores = p if scale == "probability" else np.log(p / (1.0 - p))
    fitted = calibrant.fit("venn-abers", scores, (random.random(200) < p).astype(int), scale=scale)
    (tmp_path / "map.json").write_text(json.dumps(fitted.to_document()), "utf-8")
    rows = scores[:20].tolist()
    command = [*COMMANDS[script], str(tmp_path / "map.json"), "bounds"]
    done = subprocess.run(command, input=json.dumps(rows), capture_output=True, text=True, check=True)
    np.testing.assert_allclose(np.transpose(json.loads(done.stdout)), fitted.bounds(rows), rtol=0, atol=1e-12)
    other = calibrant.fit("platt", scores, (random.random(200) < p).astype(int), scale=scale)
    (tmp_path / "map.json").write_text(json.dumps(other.to_document()), "utf-8")
    refused = subprocess.run(command, input=json.dumps(rows), capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "venn-abers" in refused.stderr


@pytest.mark.parametrize("script", COMMANDS)
def test_the_scripts_keep_the_order_that_the_average_of_an_event_keeps(script: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    c = random.random(1000)
    p = np.where(c < 0.1, 0.0, np.where(c > 0.9, 1.0, c))  # spikes at 0 and 1
    fitted = calibrant.fit("averaged", p, (random.random(1000) < 0.1 + 0.8 * p).astype(int))
    document, rows = tmp_path / "map.json", [0.0, 1e-12, 1e-9, 1e-3, 0.5, 0.999, 1.0 - 1e-9, 1.0]
    document.write_text(json.dumps(fitted.to_document()), "utf-8")
    output = subprocess.run(
        [*COMMANDS[script], str(document)], input=json.dumps(rows), capture_output=True, text=True, check=True
    ).stdout
    np.testing.assert_allclose(json.loads(output), fitted.apply(rows), rtol=0, atol=1e-12)
    assert np.all(np.diff(json.loads(output)) > 0.0)


def test_the_guide_runs_and_both_scripts_agree_with_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("apply_map.py", "apply_map.mjs"):
        shutil.copy(DOCS / name, tmp_path)
    page = (DOCS / "apply-elsewhere.md").read_text("utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(compile(example, "apply-elsewhere.md", "exec"), {})
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    expected = json.loads((tmp_path / "expected.json").read_text("utf-8"))
    path = os.pathsep.join([str(NODE.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    for command in commands.splitlines():
        subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, env={"PATH": path}, check=True)
        calibrated = json.loads((tmp_path / command.split()[-1]).read_text("utf-8"))
        np.testing.assert_allclose(calibrated, expected, rtol=0, atol=1e-12)


#: Method -> reductions of a fit to the logits of four classes; None is the event of one column.
OF_LOGITS = [
    *[(method, None) for method in ("temperature", "platt", "beta", "quadratic", "isotonic", "centered-isotonic")],
    *[
        (method, None)
        for method in ("venn-abers", "histogram", "es-sweep", "ew-sweep", "bbq", "spline", "scaling-binning", "kde")
    ],
    *[(method, None) for method in ("pl", "pl3", "averaged", "mli-spline")],
    *[("temperature", name) for name in ("canonical", "confidence", "class:1", "top:2", "within-top:2", "top-label")],
    *[("isotonic", name) for name in ("classwise", "top-label", "ranks", "within-ranks", "confidence", "class:0")],
    *[(method, "canonical") for method in ("dirichlet-l2", "ets", "accuracy-constant", "predicted-class")],
]


@pytest.mark.slow
@pytest.mark.parametrize("script", COMMANDS)
def test_the_scripts_keep_the_order_and_size_of_logits(script: str) -> None:
    """Logits of up to +-1,000, whose probabilities round to 0 and 1."""
    random = np.random.default_rng(0)
    z = random.standard_normal((200, 4)) * random.choice([1.0, 40.0, 400.0], (200, 1))
    p = np.exp((z - z.max(axis=1, keepdims=True)) / 80.0)
    labels = np.array([random.choice(4, p=row / row.sum()) for row in p])
    rows = random.standard_normal((40, 4)) * random.choice([1.0, 40.0, 400.0], (40, 1))
    for method, reduction in OF_LOGITS:
        of_column = reduction is None
        scores, y = (z[:, 0], labels == 0) if of_column else (z, labels)
        fitted = calibrant.fit(method, scores, y.astype(int), scale="logit", reduction=reduction)
        new = rows[:, 0] if of_column else rows
        done = _run(script, fitted.to_document(), new.tolist())
        assert done.returncode == 0, done.stderr
        message = f"{method} {reduction}"
        np.testing.assert_allclose(json.loads(done.stdout), fitted.apply(new), rtol=0, atol=1e-12, err_msg=message)


@pytest.mark.parametrize("script", COMMANDS)
def test_the_scripts_keep_the_ratios_of_small_probabilities(script: str) -> None:
    rows = [[1.0, 1e-43, 1e-200, 5e-324, 0.0], [0.5, 0.5, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1e-20, 0.0]]
    for family, parameters in (
        ("temperature", {"temperature": 50.0}),
        ("dirichlet", {"weights": (np.eye(5) / 40.0 + 0.001).tolist(), "intercepts": [0.1] * 5}),
    ):
        head = {"format": 1, "method": family, "reduction": "canonical", "scale": "probability", "n_classes": 5}
        document = {**head, "family": family, "parameters": parameters}
        calibrated = json.loads(_run(script, document, rows).stdout)
        np.testing.assert_allclose(calibrated, calibrant.load(document).apply(rows), rtol=1e-9, atol=1e-12)


def test_the_ecmascript_file_is_a_module_too(tmp_path: Path) -> None:
    stored = json.loads((STORED / "map-v1-platt.json").read_text("utf-8"))
    program = tmp_path / "program.mjs"
    program.write_text(
        f"import {{ apply }} from {json.dumps((DOCS / 'apply_map.mjs').as_uri())};\n"
        f"const rows = {json.dumps(stored['predictions'])}, map = {json.dumps(stored['record']['document'])};\n"
        "console.log(JSON.stringify(rows.map((row) => apply(map, row))));\n",
        "utf-8",
    )
    run = subprocess.run([str(NODE), str(program)], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(run.stdout), stored["calibrated"], rtol=0, atol=1e-12)


# --- Prediction sets


@pytest.mark.parametrize("script", COMMANDS)
@pytest.mark.parametrize("path", sorted(STORED.glob("sets-v1-*.json")), ids=lambda path: path.stem)
def test_the_scripts_give_the_sets_of_every_stored_document(path: Path, script: str) -> None:
    stored = json.loads(path.read_text("utf-8"))
    rows, groups, seed = stored["predictions"], stored["groups"], stored["seed"]
    if groups is not None:
        rows = [{"predictions": row, "group": group} for row, group in zip(rows, groups, strict=True)]
    done = _run(script, stored["document"], rows, *([] if seed is None else [str(seed)]))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == stored["sets"]


@pytest.mark.parametrize("script", COMMANDS)
def test_the_scripts_and_the_library_agree_on_ties_on_the_rows_of_the_fit_and_on_logits(script: str) -> None:
    random = np.random.default_rng(3)
    z = np.round(random.standard_normal((300, 4)) * 3.0, 1)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (np.cumsum(p, axis=1) > random.random((300, 1))).argmax(axis=1)
    cases: list[tuple[Any, Any, str | None]] = [
        (z, "logit", None),
        (p, "probability", "class"),
        (z[:, 0], "logit", "class"),
    ]
    fits: list[tuple[str, dict[str, Any]]] = [("lac", {}), ("aps", {}), ("raps", {"randomised": True, "k_reg": 1})]
    for rows, scale, conditional in cases:
        labels = y if rows.ndim == 2 else y == 0
        for method, options in fits:
            arguments: dict[str, Any] = {"method": method, "scale": scale, "conditional": conditional, **options}
            fitted = calibrant.fit_sets(rows, labels, alpha=0.2, **arguments)
            seed = 5 if options.get("randomised") else None
            done = _run(script, fitted.to_document(), rows.tolist(), *([] if seed is None else ["5"]))
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout) == fitted.apply(rows, seed=seed).to_lists(), arguments


@pytest.mark.parametrize("script", COMMANDS)
def test_the_scripts_give_every_label_of_a_row_whose_labels_need_not_exclude_each_other(script: str) -> None:
    random = np.random.default_rng(4)
    p = random.random((100, 3))
    y, groups = (random.random((100, 3)) < p).astype(int), np.array(["north", "south"])[np.arange(100) % 2]
    scales: dict[Scale, Any] = {"probability": p, "logit": np.log(p / (1.0 - p))}
    for scale, rows in scales.items():
        fitted = calibrant.fit_sets(rows, y, method="crc", alpha=0.2, scale=scale)
        done = _run(script, fitted.to_document(), rows.tolist())
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == fitted.apply(rows).to_lists()
    fitted = calibrant.fit_sets(p, y, method="crc", alpha=0.2, conditional="group", groups=groups)
    named = [{"predictions": row, "group": group} for row, group in zip(p.tolist(), groups.tolist(), strict=True)]
    done = _run(script, fitted.to_document(), named)
    assert json.loads(done.stdout) == fitted.apply(p, groups=groups).to_lists()
    named[0]["predictions"] = [0.5, 0.5]
    assert "as many labels" in _run(script, fitted.to_document(), named).stderr


@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize("conditional", [None, "class"])
@pytest.mark.parametrize("method", ["lac", "aps", "raps"])
@pytest.mark.parametrize("script", COMMANDS)
def test_the_scripts_give_the_sets_of_an_adjustable_map_at_another_level(
    script: str, method: str, conditional: str | None, scale: Scale
) -> None:
    random = np.random.default_rng(5)
    rows, labels = random.dirichlet(np.ones(3), 120), random.integers(0, 3, 120)
    rows = np.log(rows) if scale == "logit" else rows
    fitted = calibrant.fit_sets(rows, labels, method=method, conditional=conditional, scale=scale, adjustable=True)
    for alpha in (-1.0, 0.0, 0.005, 0.02, 0.3, 0.999, 1.0):
        done = _run(script, fitted.to_document(), rows.tolist(), f"alpha={alpha}")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == fitted.at(alpha).apply(rows).to_lists()


@pytest.mark.parametrize("script", COMMANDS)
def test_a_script_takes_a_level_before_or_after_a_seed_and_refuses_what_is_no_level(
    script: str, tmp_path: Path
) -> None:
    random = np.random.default_rng(6)
    rows, labels = random.dirichlet(np.ones(3), 60), random.integers(0, 3, 60)
    fitted = calibrant.fit_sets(rows, labels, method="aps", randomised=True, adjustable=True)
    (tmp_path / "map.json").write_text(json.dumps(fitted.to_document()), "utf-8")
    (tmp_path / "fixed.json").write_text(json.dumps(calibrant.fit_sets(rows, labels).to_document()), "utf-8")

    def run(*options: str, name: str = "map.json") -> subprocess.CompletedProcess[str]:
        command = [*COMMANDS[script], str(tmp_path / name), *options]
        return subprocess.run(command, input=json.dumps(rows.tolist()), capture_output=True, text=True, check=False)

    for options in (("3", "alpha=0.4"), ("alpha=0.4", "3")):
        assert json.loads(run(*options).stdout) == fitted.at(0.4).apply(rows, seed=3).to_lists()
    for level in ("nan", "inf", "x", ""):
        assert run("3", f"alpha={level}").returncode != 0
    assert "adjustable" in run("alpha=0.4", name="fixed.json").stderr


@pytest.mark.parametrize("script", COMMANDS)
def test_the_scripts_refuse_rows_of_unknown_groups_and_randomised_maps_without_a_seed(script: str) -> None:
    group, random = (json.loads((STORED / f"sets-v1-{name}.json").read_text("utf-8")) for name in ("lac.group", "aps"))
    rows = [{"predictions": group["predictions"][0], "group": "west"}]
    for document, wrong in ((group["document"], rows), (random["document"], random["predictions"])):
        done = _run(script, document, wrong)
        assert done.returncode != 0
        assert "group" in done.stderr or "seed" in done.stderr


# --- Predictive distributions


def _rows(forecasts: Any, by: Any = None) -> list[dict[str, Any]]:
    """A row for each forecast; levels are those of all."""
    per_row = {name: np.asarray(column).tolist() for name, column in forecasts.items() if not name.startswith("level")}
    shared = {name: np.asarray(column).tolist() for name, column in forecasts.items() if name.startswith("level")}
    rows = [{**dict(zip(per_row, row, strict=True)), **shared} for row in zip(*per_row.values(), strict=True)]
    return rows if by is None else [{**row, "by": covariate} for row, covariate in zip(rows, by, strict=True)]


def _plain(forecasts: Forecasts) -> dict[str, Any]:
    return {name: getattr(forecasts, name) for name in FIELDS[forecasts.kind]}


def _agrees(script: str, document: Any, forecasts: Any, by: Any, expected: Any, tol: float) -> None:
    done = _run(script, document, _rows(forecasts, by))
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    for row, wanted in zip(rows, _rows(expected), strict=True):
        assert set(row) == set(wanted)
        for name, column in wanted.items():
            finite = np.where(np.isfinite(column), column, np.nan)
            np.testing.assert_allclose(np.array(row[name], np.float64), finite, rtol=tol, atol=tol)


@pytest.mark.slow
@pytest.mark.parametrize("script", COMMANDS)
@pytest.mark.parametrize("path", DISTRIBUTIONS, ids=lambda path: path.stem)
def test_the_scripts_apply_every_stored_document_of_distributions(path: Path, script: str) -> None:
    stored = json.loads(path.read_text("utf-8"))
    shared = {name: column for name, column in stored["forecasts"].items() if name.startswith("level")}
    if "quantiles" in stored["calibrated"] and "levels" not in shared:
        shared = {"levels": stored["document"]["parameters"]["levels"]}
    wanted = {**stored["calibrated"], **shared}
    _agrees(script, stored["document"], stored["forecasts"], stored["by"], wanted, 1e-12)


LEVELS = [0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975]
#: Method -> the arguments of its fits, besides the forecasts.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "location-scale": [{}, {"scale": "log1p"}],
    "quantile-recalibration": [{}, {"shape": "pl", "tails": "flat"}, {"scale": "log1p"}],
    "conformal": [{}, {"scale": "log1p"}],
    "averaged": [{}, {"scale": "log1p"}],
}
FITS = [
    pytest.param(method, kind, options, by, id=f"{method}-{kind}-{i}-{'by' if by else 'all'}")
    for method, entry in calibrant.DISTRIBUTION_METHODS.items()
    for kind in entry.kinds
    for i, options in enumerate(OPTIONS.get(method, [{}]))
    for by in (False, True)
    if (kind, options.get("scale")) != ("normal", "log1p") and not (by and (i > 0 or method == "identity"))
]


def _forecasts(kind: str, n: int, seed: int) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Forecasts of positive numbers that are too narrow and too low, their outcomes and groups."""
    rng = np.random.default_rng(seed)
    mean, sd, by = rng.uniform(8.0, 15.0, n), rng.uniform(0.4, 1.2, n), rng.integers(0, 3, n)
    y = np.maximum(mean + 0.5 + (1.3 + 0.4 * by) * sd * rng.standard_normal(n), 0.1)
    samples = np.maximum(mean[:, None] + sd[:, None] * rng.standard_normal((n, 40)), 0.0)
    forecasts: dict[str, dict[str, Any]] = {
        "normal": {"mean": mean, "variance": sd * sd},
        "quantiles": {"quantiles": np.quantile(samples, LEVELS, axis=1).T, "levels": LEVELS},
        "samples": {"samples": samples},
        "interval": {"lower": samples.min(axis=1), "upper": samples.max(axis=1), "level": 0.9},
    }
    return forecasts[kind], y, by


def _fitted(method: str, kind: str, by: bool = False, n: int = 240, **options: Any) -> DistributionMap:
    forecasts, y, groups = _forecasts(kind, n, seed=1)
    return calibrant.fit_distribution(method, y, by=groups if by else None, **forecasts, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "kind", "options", "by"), FITS)
def test_the_scripts_agree_with_every_fitted_map_of_distributions(
    method: str, kind: str, options: dict[str, Any], by: bool
) -> None:
    bounded = kind != "normal" or not calibrant.DISTRIBUTION_METHODS[method].keeps_normal
    fitted = _fitted(method, kind, by, support=(0.0, 30.0) if bounded else (None, None), **options)
    forecasts, _, groups = _forecasts(kind, 60, seed=2)
    by_group = (groups + 1).tolist() if by else None  # the last group was not in the fit
    expected = _plain(fitted.apply(by=by_group, **forecasts))
    for script in COMMANDS:
        _agrees(script, fitted.to_document(), forecasts, by_group, expected, 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("script", COMMANDS)
@pytest.mark.parametrize("tails", ["normal", "flat"])
@pytest.mark.parametrize("levels", [[0.5], [0.5, 0.8], [0.6, 0.7], [0.1, 0.2], [1e-9, 0.3, 1.0 - 1e-9]])
def test_tails_of_quantiles_at_any_levels_agree(levels: list[float], tails: str, script: str) -> None:
    forecasts, y, _ = _forecasts("samples", 200, seed=1)
    quantiles = {"quantiles": np.quantile(forecasts["samples"], levels, axis=1).T, "levels": levels}
    fitted = calibrant.fit_distribution("quantile-recalibration", y, tails=tails, scale="log1p", **quantiles)
    expected = _plain(fitted.apply(**quantiles))
    _agrees(script, fitted.to_document(), quantiles, None, expected, 1e-12)


@pytest.mark.parametrize("script", COMMANDS)
@pytest.mark.parametrize("levels", [[0.02, 0.3, 0.7, 0.98], [0.02, 0.3, 0.5, 0.7, 0.98]])
@pytest.mark.parametrize("kind", ["samples", "normal"])
def test_infinite_bounds_are_null_and_widths_may_shrink(kind: str, levels: list[float], script: str) -> None:
    fitted = _fitted("conformal", kind, n=20, output_levels=levels, support=(None, None))
    document = fitted.to_document()
    assert document["parameters"]["offsets"][0] is None
    document["parameters"]["offsets"][1] = -2.0
    forecasts, _, _ = _forecasts(kind, 30, seed=2)
    expected = _plain(calibrant.load_distribution(document).apply(**forecasts))
    _agrees(script, document, forecasts, None, expected, 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("script", COMMANDS)
def test_random_ties_move_bounds_by_at_most_their_rounding(script: str) -> None:
    document = _fitted("conformal", "quantiles", ties="random").to_document()
    forecasts, _, _ = _forecasts("quantiles", 400, seed=2)
    for keep in (0.0, 1.0):
        document["parameters"]["keep"] = [keep] * 3
        expected = _plain(calibrant.load_distribution(document).apply(**forecasts))
        _agrees(script, document, forecasts, None, expected, 1e-12)
    document["parameters"]["keep"] = [0.25] * 3
    wanted = expected["quantiles"]
    _agrees(script, document, forecasts, None, expected, 1.1e-9)
    rows = json.loads(_run(script, document, _rows(forecasts)).stdout)
    moved = np.mean([row["quantiles"][0] - q[0] > 1e-10 for row, q in zip(rows, wanted, strict=True)])
    assert moved == pytest.approx(0.75, abs=0.15)  # seven standard errors: the script draws its own numbers


@pytest.mark.parametrize("script", COMMANDS)
def test_quantiles_that_cross_by_rounding_are_put_in_order(script: str) -> None:
    fitted = _fitted("location-scale", "quantiles")
    forecasts, _, _ = _forecasts("quantiles", 5, seed=2)
    forecasts["quantiles"][:, 2] = forecasts["quantiles"][:, 3] * (1.0 + 1e-9)
    expected = _plain(fitted.apply(**forecasts))
    _agrees(script, fitted.to_document(), forecasts, None, expected, 1e-12)


#: Changes of a document and of a row of its kind, and the error.
REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("normal", {"format": 2}, {}, "unknown format: 2"),
    ("normal", {"family": "toString"}, {}, "unknown family of distributions: toString"),
    ("normal", {"prediction_kind": None, "scale": "probability"}, {}, "unknown family: by-group"),
    ("normal", {}, {"variance": 0.0}, "variance must be above 0"),
    ("normal", {}, {"variance": None}, "variance must be a"),
    ("normal", {}, {"mean": [1.0]}, "mean must be a"),
    ("normal", {}, {"by": None}, "by must be a string or an integer"),
    ("normal", {}, {"level": 0.9}, "a row must be an object with mean, variance"),
    ("normal", {"kind": "samples"}, {}, "a row must be an object with samples"),
    ("quantiles", {}, {"levels": LEVELS[1:]}, "levels must be those of the map"),
    ("quantiles", {}, {"levels": [0.05, *LEVELS[1:]]}, "levels must be those of the map"),
    ("quantiles", {}, {"quantiles": [1.0, 2.0]}, "quantiles must be as many as levels"),
    ("quantiles", {}, {"quantiles": [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]}, "must not cross"),
    ("quantiles", {}, {"quantiles": [-1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}, "numbers must be above -1"),
    ("samples", {}, {"samples": []}, "samples must be a list of"),
    ("interval", {}, {"level": 0.8}, "levels must be those of the map"),
]


@pytest.mark.slow
@pytest.mark.parametrize("script", COMMANDS)
@pytest.mark.parametrize(("kind", "changes", "row", "message"), REFUSED)
def test_the_scripts_refuse_what_the_map_does_not_take(
    kind: str, changes: dict[str, Any], row: dict[str, Any], message: str, script: str
) -> None:
    method, options = ("variance-scaling", {}) if kind == "normal" else ("location-scale", {"scale": "log1p"})
    document = {**_fitted(method, kind, by=True, n=120, **options).to_document(), **changes}
    forecasts, _, _ = _forecasts(kind, 1, seed=2)
    (good,) = _rows(forecasts, ["0"])
    if not changes:
        assert _run(script, document, [good]).returncode == 0
    done = _run(script, document, [{**good, **row}])
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("script", COMMANDS)
def test_the_scripts_refuse_a_family_that_they_do_not_know(script: str) -> None:
    stored = json.loads((STORED / "map-v1-platt.json").read_text("utf-8"))
    done = _run(script, {**stored["record"]["document"], "family": "constructor"}, [0.5])
    assert done.returncode != 0
    assert "unknown family: constructor" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("script", COMMANDS)
@pytest.mark.parametrize("method", ["histogram", "es-sweep", "es-cv", "venn-abers"])
@pytest.mark.parametrize("reduction", ["classwise", "confidence", "class:1"])
def test_bins_of_logits_have_the_rows_that_they_were_fitted_to(method: str, reduction: str, script: str) -> None:
    random = np.random.default_rng(0)
    z = 3.0 * random.normal(size=(300, 4))
    labels = (z / 2.0 + random.gumbel(size=z.shape)).argmax(axis=1)
    fitted = calibrant.fit(method, z, labels, scale="logit", reduction=reduction)
    run = _run(script, fitted.to_document(), z.tolist())
    np.testing.assert_allclose(json.loads(run.stdout), fitted.apply(z), rtol=0, atol=1e-12)
