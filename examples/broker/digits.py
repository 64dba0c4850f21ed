"""Data and model of the broker's jobs: hand-written digits, a network with one hidden layer, NumPy only."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Weights = dict[str, Floats]

DATA = Path(__file__).parent / "data" / "digits.csv.gz"
PIXELS, HIDDEN, DIGITS = 64, 32, 10


def digits_load(path: Path = DATA) -> tuple[Floats, NDArray[np.int64]]:
    """(pictures, digits): one row of 64 pixels from 0 to 1 for each of the 1 797 pictures, and what each shows."""
    with gzip.open(path, "rt", newline="") as stream:
        table = np.array([[int(cell) for cell in row] for row in csv.reader(stream)])
    return table[:, :PIXELS] / 16.0, table[:, PIXELS].astype(np.int64)


def weights_make(random: np.random.Generator) -> Weights:
    """Small random weights: 64 pixels → 32 hidden units → 10 digits."""
    return {
        "w1": random.normal(0, np.sqrt(2 / PIXELS), (PIXELS, HIDDEN)),
        "b1": np.zeros(HIDDEN),
        "w2": random.normal(0, np.sqrt(1 / HIDDEN), (HIDDEN, DIGITS)),
        "b2": np.zeros(DIGITS),
    }


def forward(weights: Weights, pictures: Floats) -> tuple[Floats, Floats]:
    """(hidden activations, probabilities of the ten digits) for each picture."""
    hidden = np.maximum(pictures @ weights["w1"] + weights["b1"], 0)
    scores = hidden @ weights["w2"] + weights["b2"]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def loss(weights: Weights, pictures: Floats, digits: NDArray[np.int64]) -> float:
    """Mean cross-entropy, in nats."""
    _, chances = forward(weights, pictures)
    return float(-np.log(chances[np.arange(len(digits)), digits] + 1e-12).mean())


def gradient(weights: Weights, pictures: Floats, digits: NDArray[np.int64]) -> Weights:
    """The gradient of `loss` by every weight."""
    hidden, error = forward(weights, pictures)
    error[np.arange(len(digits)), digits] -= 1
    error /= len(digits)
    back = (error @ weights["w2"].T) * (hidden > 0)
    return {
        "w1": pictures.T @ back,
        "b1": back.sum(axis=0),
        "w2": hidden.T @ error,
        "b2": error.sum(axis=0),
    }


def step(weights: Weights, speed: Weights, slope: Weights, rate: float, momentum: float = 0.9) -> None:
    """One step of gradient descent with momentum, in place."""
    for name, value in slope.items():
        speed[name] = momentum * speed[name] - rate * value
        weights[name] += speed[name]
