from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from benchmarks.arena import boards, results
from benchmarks.arena.contenders import Contender, base, ours
from benchmarks.arena.datasets import read_frame
from benchmarks.arena.experiments import Experiment, ExperimentKey, find, read, rows_of
from benchmarks.arena.page import Board, leaderboard, others, representatives
from benchmarks.arena.run import in_rounds, play
from benchmarks.arena.scores import brier, ece, losses, score
from benchmarks.arena.worlds import features, split
from benchmarks.records import UnusableRecords, append
from tests.rows import draw_classes

pytestmark = pytest.mark.slow

Array = Any
ROOT = Path(__file__).parents[3]
#: Scores of three contenders on three experiments; the first two tie on the second experiment.
SCORES = np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 2.0], [3.0, 2.0, 1.0]])


def test_a_win_is_a_lower_score_and_a_tie_counts_half() -> None:
    expected = [[1.0, 0.5, 0.0], [0.75, 0.75, 0.0], [0.0, 0.5, 1.0]]
    np.testing.assert_allclose(boards.wins(SCORES), expected)
    np.testing.assert_allclose(boards.wins(SCORES).sum(axis=1), 1.5)  # half of the three pairs' wins each


def test_under_the_strict_rule_a_tie_counts_nothing() -> None:
    np.testing.assert_allclose(boards.wins(SCORES, ties=0.0), [[1.0, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 1.0]])


def test_the_bootstrap_draws_whole_data_sets_and_weights_experiments_equally() -> None:
    shares = np.array([[1.0], [1.0], [1.0], [0.0]])
    rates = boards.rates(shares, np.array(["a", "a", "a", "b"]))
    assert rates.means[0] == 0.75
    # Two data sets are drawn: a twice, a and b, or b twice.
    means, counts = np.unique(rates.samples[:, 0], return_counts=True)
    np.testing.assert_allclose(means, [0.0, 0.75, 1.0])
    np.testing.assert_allclose(counts / boards.RESAMPLES, [0.25, 0.5, 0.25], atol=0.05)
    assert rates.interval(0) == (0.0, 1.0)


def test_differences_are_paired() -> None:
    # The second contender wins exactly 0.1 less on every experiment, whatever the data set.
    first = np.array([0.9, 0.2, 0.6, 0.4])
    rates = boards.rates(np.column_stack([first, first - 0.1]), np.array(list("abcd")))
    np.testing.assert_allclose(rates.difference(0, 1), (0.1, 0.1, 0.1))
    assert rates.is_first(0)
    assert not rates.is_first(1)


def test_a_first_rank_needs_an_interval_that_excludes_0() -> None:
    rates = boards.rates(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array(["a", "b", "c"]))
    assert rates.means[0] > rates.means[1]
    assert not rates.is_first(0)


def test_harm_at_all_is_a_higher_loss_and_ties_are_no_harm() -> None:
    assert boards.harm_at_all(np.array([0.5, 0.51, 0.49]), np.full(3, 0.5)).tolist() == [False, True, False]


def test_harm_beyond_error_needs_1_percent_and_1645_standard_errors() -> None:
    base_loss, error = np.full(4, 1.0), np.array([0.001, 0.001, 0.02, 0.01])
    # 0.5 % higher; 2 % and 20 errors; 2 % but one error; 2 % and two errors.
    loss = np.array([1.005, 1.02, 1.02, 1.02])
    assert boards.harm_beyond_error(loss, base_loss, error).tolist() == [False, True, False, True]


def test_hindsight_compares_means_over_the_halves_of_a_file() -> None:
    loss = np.array([0.2, 0.4, 0.5])
    peers = np.array([[0.1, 0.3], [0.5, 0.2], [0.4, 0.5]])
    files, ratios = boards.hindsight(loss, peers, np.array(["f", "f", "g"]))
    assert files == ["f", "g"]
    np.testing.assert_allclose(ratios, [0.3 / 0.25, 0.5 / 0.4])
    assert boards.geometric_mean(np.array([2.0, 0.5])) == pytest.approx(1.0)


def test_one_peer_for_all_files_has_the_lowest_geometric_mean() -> None:
    loss = np.array([0.2, 0.2, 0.5])
    peers = np.array([[0.1, 0.3], [0.1, 0.3], [0.5, 0.4]])
    best, ratios = boards.single(loss, peers, np.array(["f", "f", "g"]))
    assert best == 0
    np.testing.assert_allclose(ratios, [2.0, 1.0])


def test_the_peer_of_a_half_is_chosen_on_the_other_halves() -> None:
    loss = np.array([0.3, 0.3])
    peers = np.array([[0.1, 0.4], [0.5, 0.2]])
    # The first half chooses the second peer for the other half's sake, and the second half the first.
    np.testing.assert_allclose(boards.chosen_elsewhere(loss, peers, np.array(["f", "f"])), [0.6 / (0.4 + 0.5)])


def test_a_change_of_accuracy_has_mcnemars_standard_error() -> None:
    change, error = boards.accuracy_change(np.array([6]), np.array([2]), np.array([100]))
    assert change[0] == 0.04
    assert error[0] == pytest.approx(np.sqrt(8 - 16 / 100) / 100)


def test_scores_of_two_rows_by_hand() -> None:
    p, y = np.array([[0.8, 0.2], [0.0, 1.0]]), np.array([0, 0])
    np.testing.assert_allclose(losses(p, y), [-np.log(0.8), -np.log(1e-15)])
    assert brier(p, y) == pytest.approx((2 * 0.04 + 2.0) / 2)
    # Two bins of one row each: 0.2 against 0, and 1 against 0.
    assert ece(p, y) == pytest.approx((0.2 + 1.0) / 2)
    scores = score(p, np.array([[0.4, 0.6], [0.6, 0.4]]), y)
    assert (scores["gained"], scores["lost"], scores["clipped"], scores["accuracy"]) == (1, 1, 1, 0.5)
    excess = losses(p, y) - losses(np.array([[0.4, 0.6], [0.6, 0.4]]), y)
    assert scores["excess_error"] == pytest.approx(abs(excess[0] - excess[1]) / 2)


def test_ece_of_several_classes_is_of_the_confidence() -> None:
    assert ece(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]), np.array([0, 1])) == pytest.approx((0.5 + 0.8) / 2)


def test_npz_files_are_split_into_seeded_halves_and_other_archives_left_out(tmp_path: Path) -> None:
    logits = np.log(np.array([[1.0, 3.0]] * 5 + [[4.0, 1.0]] * 5))
    np.savez(tmp_path / "model.npz", logits=logits, labels=np.arange(10) % 2)
    np.savez(tmp_path / "quantiles.npz", quantiles=np.zeros(3))
    keys = find([tmp_path])
    assert [key.name for key in keys] == [f"model/half-{seed}" for seed in range(5)]
    assert {key.unit for key in keys} == {"model"}
    first = read(keys[0])
    assert (len(first.y_cal), len(first.y_test)) == (5, 5)
    np.testing.assert_allclose(np.sort(np.concatenate([first.p_cal, first.p_test])[:, 1]), [0.2] * 5 + [0.75] * 5)
    np.testing.assert_array_equal(read(keys[0]).p_cal, first.p_cal)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no-such is not a folder"):
        find([tmp_path / "no-such"])


def test_rows_are_renormalised_and_probabilities_of_class_1_completed() -> None:
    assert rows_of(np.array([[0.5], [1.5]])).tolist() == [[0.5, 0.5], [0.0, 1.0]]
    np.testing.assert_allclose(rows_of(np.array([[0.2, 0.2, 0.4]])), [[0.25, 0.25, 0.5]])


def test_experiments_come_in_rounds_over_data_sets() -> None:
    keys = [ExperimentKey(Path("f.h5"), dataset, model) for dataset in "abc" for model in "xyz"]
    order = in_rounds(keys)
    assert sorted(order) == sorted(keys)
    assert all({key.dataset for key in order[first : first + 3]} == set("abc") for first in (0, 3, 6))


def _experiment() -> Experiment:
    p = np.array([[0.75, 0.25], [0.25, 0.75]] * 20)
    y = np.array([0, 1, 0, 0] * 10)
    return Experiment(p, y, p, y)


def test_the_base_model_has_no_excess_and_a_failure_counts_as_the_base_model() -> None:
    def fails(*_: Array) -> Array:
        raise FloatingPointError

    before = play(base(), _experiment())
    assert (before["excess"], before["gained"], before["problem"]) == (0.0, 0, None)
    after = play(Contender("failing", "peer", "failing", fails), _experiment())
    assert (after["log_loss"], after["problem"]) == (before["log_loss"], "FloatingPointError")
    lost = play(Contender("nan", "peer", "nan", lambda *_: np.full((40, 2), np.nan)), _experiment())
    assert "not finite" in lost["problem"]


#: Contenders that catch, or replace, the signal of the time limit; run by a process of its own, which signals may end.
_LIMITED = """
import sys, time
import benchmarks.arena.run as arena
from benchmarks.arena.contenders import Contender
from tests.unit.benchmarks.test_arena import _experiment

def catches(*_):
    while True:
        try:
            while True:
                time.perf_counter()
        except Exception:
            continue

def replaces(*_):
    try:
        while True:
            time.perf_counter()
    except BaseException:
        raise KeyboardInterrupt from None

def interrupts(*_):
    raise KeyboardInterrupt

arena.LIMIT = 0.05
found = arena.play(Contender("name", "peer", "name", globals()[sys.argv[1]]), _experiment())
print(found["problem"], found["excess"])
"""


def _limited(contender: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _LIMITED, contender], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("contender", ["catches", "replaces"])
def test_a_contender_out_of_time_counts_as_the_base_model(contender: str) -> None:
    assert _limited(contender).stdout == "time limit 0.0\n"


def test_an_interrupt_before_the_time_limit_ends_the_run() -> None:
    ended = _limited("interrupts")
    assert ended.stdout == ""
    assert "KeyboardInterrupt" in ended.stderr


@pytest.mark.parametrize("n_classes", [2, 3])
def test_our_contenders_return_probabilities_of_all_classes(n_classes: int) -> None:
    p, y = draw_classes(60, n_classes)
    contenders = {contender.name: contender for contender in ours()}
    assert "identity" not in contenders
    for name in ("averaged", "temperature", "isotonic"):
        q = rows_of(contenders[name].run(p, y, p))
        assert q.shape == p.shape
        np.testing.assert_allclose(q.sum(axis=1), 1.0)
    assert contenders["vector"].plays(3)
    assert not contenders["vector"].plays(2)


def test_a_map_may_differ_between_two_classes_and_more() -> None:
    contender = Contender("logistic", "peer", "affine|vector", base().run)
    assert (contender.fitted_map(two=True), contender.fitted_map(two=False)) == ("affine", "vector")


def _board() -> Board:
    contenders = [
        {"contender": name, "package": package, "map": fitted, "version": "1"}
        for name, package, fitted in (
            ("base-model", "", "identity"),
            ("weak-ts", "peer", "temperature"),
            ("strong-ts", "peer", "temperature"),
            ("temperature", "calibrant", "temperature"),
            ("averaged", "calibrant", "averaged"),
        )
    ]
    loss = np.array([[0.5, 0.4, 0.3, 0.2, 0.1], [0.5, 0.6, 0.3, 0.2, 0.1], [0.5, 0.4, 0.3, 0.2, 0.55]])
    rows = [{"experiment": f"{name}/m", "dataset": name, "n_classes": 2, "n_cal": 9, "n_test": 100} for name in "abc"]
    zeros = np.zeros(loss.shape)
    columns = {"log_loss": loss, "brier": loss, "ece": zeros, "accuracy": zeros, "excess_error": zeros + 0.01}
    columns |= {"gained": zeros, "lost": zeros, "clipped": zeros, "seconds": zeros + 0.5}
    return Board("Binary", contenders, rows, columns, [[], ["time limit"], [], [], []])


def test_a_board_has_one_implementation_of_a_map_the_strongest_of_the_peers() -> None:
    board = _board()
    chosen = representatives(board)
    assert [board.contenders[row]["contender"] for row in chosen] == ["base-model", "strong-ts", "averaged"]
    left = others(board, chosen)
    assert "| weak-ts | peer | strong-ts |" in left
    assert "1 time limit" in left
    # In place of strong-ts, ours wins as often against the two others.
    assert "| `temperature` | calibrant | strong-ts | 66.7 | 66.7 |" in left


def test_the_leaderboard_states_rank_interval_harm_and_time() -> None:
    board = _board()
    sentences, table = leaderboard(board.keep(representatives(board)))
    assert "Binary, log loss: `averaged` is not first; its rank is" in sentences
    row = next(line for line in table.splitlines() if "**`averaged`**" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    # It beats both others on two of three data sets, and harms on the third: 0.55 against 0.5.
    assert cells[3] == "66.7"
    assert cells[10:12] == ["33.3", "33.3"]
    assert cells[14:16] == ["500", "0.5"]


def test_results_are_collected_once_per_experiment_and_read_again(tmp_path: Path) -> None:
    record = {"experiment": "a/m", "dataset": "a", "n_classes": 2, "n_cal": 10, "n_test": 20, "contender": "TS"}
    record |= {"package": "peer", "version": "1", "problem": None, **score(*_rows())}
    lines = [record | {"seconds": 1.0}, record | {"seconds": 0.25, "log_loss": 0.123456789}]
    for line in lines:
        append(tmp_path / "peer--TS.jsonl", line)
    results.collect(tmp_path, tmp_path / "csv")
    experiments, contenders, records = results.read(tmp_path / "csv")
    assert experiments["a/m"]["n_test"] == 20
    assert [contender["contender"] for contender in contenders] == ["TS"]
    collected = records["peer--TS"]["a/m"]
    assert (collected["log_loss"], collected["seconds"], collected["problem"]) == (0.1234568, 0.25, "")
    with (tmp_path / "csv" / "peer--TS.csv.gz").open("ab") as file:
        file.write(b"edited")
    with pytest.raises(UnusableRecords, match=r"peer--TS\.csv\.gz: missing or altered"):
        results.read(tmp_path / "csv")


def _rows() -> tuple[Array, Array, Array]:
    experiment = _experiment()
    return experiment.p_test, experiment.p_test, experiment.y_test


def test_a_data_frame_loses_unlabelled_rows_rare_classes_and_free_text() -> None:
    frame = pandas.DataFrame(
        {
            "label": ["yes"] * 30 + ["no"] * 30 + ["rare"] * 3 + [None],
            "number": [1.0, np.nan] * 32,
            "kind": ["u", "v"] * 32,
            "text": [f"row {i}" for i in range(64)],
            "key": range(64),
        }
    )
    table = read_frame(frame, "label", ("key",))
    assert (table.numbers.shape, table.categories.shape) == ((60, 1), (60, 1))
    assert table.labels.tolist() == [1] * 30 + [0] * 30
    with pytest.raises(ValueError, match="no column other; its columns: label, number"):
        read_frame(frame, "other")


def test_splits_have_every_class_and_features_use_training_rows_only() -> None:
    labels = np.array([0] * 900 + [1] * 70 + [2] * 30)
    train, cal, test = split(labels)
    assert [len(train), len(cal), len(test)] == [600, 200, 200]
    assert sorted(np.concatenate([train, cal, test])) == list(range(1_000))
    assert all(set(labels[part]) == {0, 1, 2} for part in (train, cal, test))
    numbers = np.arange(1_000.0)[:, None]
    numbers[test[0]] = np.nan
    numbers[test[1]] = 1e9
    table = read_frame(pandas.DataFrame({"x": numbers[:, 0], "y": labels}), "y")
    X = features(table, train)
    assert X[train, 0].mean() == pytest.approx(0.0)
    assert X[train, 0].std() == pytest.approx(1.0)
    assert X[test[0], 1] == 1.0  # the flag of a missing number
    assert X[test[1], 0] == 10.0


def test_rows_that_neither_train_nor_test_calibrate() -> None:
    assert [len(part) for part in split(np.arange(20_000) % 2)] == [10_000, 6_000, 4_000]
    assert [len(part) for part in split(np.arange(300_000) % 2)] == [10_000, 250_000, 40_000]


def test_a_rare_class_has_a_row_in_every_part() -> None:
    labels = np.array([0] * 99_997 + [1] * 3)
    parts = split(labels)
    assert [int(labels[part].sum()) for part in parts] == [1, 1, 1]
    assert len(set(np.concatenate(parts))) == sum(map(len, parts))
