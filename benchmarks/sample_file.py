"""The sample file of the front page. Writes service/assets/sample.csv."""

from __future__ import annotations

from pathlib import Path

from calibrant.cli.commands.sample import boosted

SAMPLE = Path(__file__).parents[1] / "service" / "assets" / "sample.csv"


def main() -> None:
    """Out-of-sample predictions of AdaBoost on handwritten digits: whether each is 5 or more."""
    classifier = boosted()
    rows = zip(classifier.predictions.tolist(), classifier.labels.tolist(), strict=True)
    SAMPLE.write_text("p,label\n" + "".join(f"{p:.6f},{y}\n" for p, y in rows), "utf-8")
    print(f"{SAMPLE.name}: {SAMPLE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
