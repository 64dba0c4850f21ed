"""Trains a digit classifier by stochastic gradient descent, as a job that can be interrupted at any moment.

    python train.py            as a job of millpond, or by hand with nothing set

Each rank computes the gradient of its own share of the pictures; the gang averages them.  Rank 0 writes a checkpoint
every CHECKPOINT_STEPS steps (to a temporary name, then renamed, so that none is ever half written).  On the warning
signal the gang agrees on a step, rank 0 saves, and all exit with code 75: "saved, queue me again".  The next attempt
continues where the last one stopped.  What happens is printed as one JSON object a line.

Environment: STEPS (100000), STEP_SECONDS (0.05: a step takes at least so long, in place of a GPU's work),
CHECKPOINT_STEPS (50), SEED (0), RATE (0.005), and what millpond sets.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import numpy as np
from digits import Weights, digits_load, gradient, loss, step, weights_make
from gang import Gang

SAVED = 75
BATCH = 512
KEPT = 2


class Warned:
    """Becomes true when the warning signal arrives."""

    def __init__(self) -> None:
        self.value = False
        signal.signal(signal.SIGUSR1, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.value = True


def tell(event: str, **fields: object) -> None:
    """One line of the job's log."""
    print(json.dumps({"event": event, **fields}), flush=True)


def checkpoint_write(folder: Path, number: int, weights: Weights, speed: Weights, value: float) -> Path:
    """Write a checkpoint that is there in full or not at all, then forget all but the newest few."""
    path = folder / f"step-{number:08d}.npz"
    temporary = path.with_suffix(".tmp")
    arrays = {f"weights_{name}": array for name, array in weights.items()}
    arrays |= {f"speed_{name}": array for name, array in speed.items()}
    with temporary.open("wb") as stream:
        np.savez(stream, step=np.array(number), loss=np.array(value), **arrays)  # type: ignore[arg-type]
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
    for old in sorted(folder.glob("step-*.npz"))[:-KEPT]:
        old.unlink()
    return path


def checkpoint_read(folder: Path) -> tuple[int, Weights, Weights] | None:
    """(step, weights, speed) of the newest checkpoint, or None when there is none."""
    found = sorted(folder.glob("step-*.npz"))
    if not found:
        return None
    with np.load(found[-1]) as saved:
        names = [name.removeprefix("weights_") for name in saved.files if name.startswith("weights_")]
        return (
            int(saved["step"]),
            {name: saved[f"weights_{name}"] for name in names},
            {name: saved[f"speed_{name}"] for name in names},
        )


def shared_step(gang: Gang, slope: Weights, warned: bool) -> tuple[Weights, bool]:
    """(mean gradient, whether any rank was warned): one exchange, so that all ranks leave after the same step."""
    names = sorted(slope)
    mean = gang.mean(np.concatenate([*(slope[name].ravel() for name in names), [float(warned)]]))
    pieces = np.split(mean[:-1], np.cumsum([slope[name].size for name in names])[:-1])
    shared = {name: piece.reshape(slope[name].shape) for name, piece in zip(names, pieces, strict=True)}
    return shared, bool(mean[-1] > 0)


def train(gang: Gang, warned: Warned, folder: Path) -> int:
    """Train until STEPS or the warning; the exit code."""
    steps, pause = int(os.environ.get("STEPS", "100000")), float(os.environ.get("STEP_SECONDS", "0.05"))
    every, rate = int(os.environ.get("CHECKPOINT_STEPS", "50")), float(os.environ.get("RATE", "0.005"))
    seed = int(os.environ.get("SEED", "0"))
    pictures, digits = digits_load()
    weights = weights_make(np.random.default_rng(seed))
    speed = {name: np.zeros_like(array) for name, array in weights.items()}
    number = 0
    resumed = checkpoint_read(folder)
    if resumed is not None:
        number, weights, speed = resumed
    if gang.rank == 0:
        word = "resumed" if resumed is not None else "started"
        tell(word, step=number, loss=loss(weights, pictures, digits), ranks=gang.size)
    while number < steps:
        began = time.monotonic()
        # The batch depends on the step alone, so a resumed run sees what an unbroken one would have seen.
        chosen = np.random.default_rng((seed, number)).permutation(len(digits))[:BATCH][gang.rank :: gang.size]
        slope, leave = shared_step(gang, gradient(weights, pictures[chosen], digits[chosen]), warned.value)
        step(weights, speed, slope, rate)
        number += 1
        if gang.rank == 0 and (leave or number % every == 0 or number == steps):
            value = loss(weights, pictures, digits)
            path = checkpoint_write(folder, number, weights, speed, value)
            tell("saved" if leave else "checkpoint", step=number, loss=value, file=path.name)
        if leave:
            return SAVED
        time.sleep(max(0.0, pause - (time.monotonic() - began)))
    return 0


def main() -> int:
    warned = Warned()
    # MILLPOND_RESUME_FROM is the same folder when an earlier attempt left something in it.
    folder = Path(os.environ.get("MILLPOND_CHECKPOINT_DIR") or "checkpoint")
    folder.mkdir(parents=True, exist_ok=True)
    with Gang() as gang:
        return train(gang, warned, folder)


if __name__ == "__main__":
    sys.exit(main())
