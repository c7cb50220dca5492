"""Tasks with what PyTorch, Keras, Hugging Face and XGBoost return."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from sklearn.preprocessing import LabelEncoder

import calibrant


def test_pytorch_tensors_come_straight_from_the_model() -> None:
    """Evaluate the logits of a module, which require gradients, against a tensor of targets."""
    torch.manual_seed(0)
    inputs, target = torch.randn(600, 8), torch.randint(0, 3, (600,))
    logits = torch.nn.Linear(8, 3)(inputs)
    report = calibrant.evaluate(logits, target, scale="logit")
    expected = calibrant.evaluate(logits.detach().numpy(), target.numpy(), scale="logit").measures
    assert report["log-loss"].value == expected["log-loss"].value
    p = torch.sigmoid(logits[:, 0]).bfloat16()  # as under autocast
    expected = calibrant.evaluate(p.detach().float().numpy(), (target == 0).numpy()).measures
    assert calibrant.evaluate(p, target == 0)["ece"].value == pytest.approx(expected["ece"].value)


def test_keras_returns_a_column(scores: Any) -> None:
    """Evaluate and calibrate ``model.predict`` of a sigmoid output, which has the shape (n, 1)."""
    predicted = scores[["p"]].to_numpy(np.float32)
    y = scores[["y"]].to_numpy()
    report = calibrant.evaluate(predicted, y)
    assert report.reduction == "binary"
    assert report["ece"].value == pytest.approx(calibrant.evaluate(predicted[:, 0], y[:, 0])["ece"].value)
    platt = calibrant.fit("platt", predicted, y)
    np.testing.assert_allclose(np.ravel(platt.apply(predicted)), platt.apply(predicted[:, 0]))


class _PredictionOutput(NamedTuple):
    """What ``transformers.Trainer.predict`` returns."""

    predictions: np.ndarray[Any, np.dtype[np.float32]]
    label_ids: np.ndarray[Any, np.dtype[np.int64]]
    metrics: dict[str, float]


def test_a_hugging_face_trainer_gives_logits_and_id2label() -> None:
    """Scale the temperature of a fine-tuned model, and keep the names of its labels."""
    random = np.random.default_rng(0)
    logits = 3 * random.normal(size=(600, 3)).astype(np.float32)
    output = _PredictionOutput(logits, np.argmax(logits / 3 + random.gumbel(size=(600, 3)), axis=1), {})
    id2label = {0: "bird", 1: "cat", 2: "dog"}
    scaled = calibrant.fit(
        "ts", output.predictions, output.label_ids, scale="logit", class_names=list(id2label.values())
    )
    assert scaled.method == "temperature"
    assert scaled.class_names == ("bird", "cat", "dog")
    np.testing.assert_allclose(scaled.apply(output.predictions).sum(axis=1), 1.0)
    with pytest.raises(calibrant.CalibrationError, match="logit"):
        calibrant.evaluate(output.predictions, output.label_ids)


def test_xgboost_gives_float32_and_labels_from_an_encoder(pets: Any) -> None:
    """Evaluate ``multi:softprob`` in float32 with the classes of a LabelEncoder, and ``output_margin`` by mistake."""
    encoder = LabelEncoder().fit(pets["species"])
    softprob = pets[["bird", "cat", "dog"]].to_numpy(np.float32)
    encoded = encoder.transform(pets["species"])
    report = calibrant.evaluate(softprob, pets["species"], class_names=encoder.classes_)
    assert report["ece"].value == calibrant.evaluate(softprob, encoded, class_names=encoder.classes_)["ece"].value
    with pytest.raises(calibrant.CalibrationError, match="logit"):
        calibrant.evaluate(np.log(softprob), encoded)
