"""Serves digit recognition over HTTP: the trading desk's inference service.

    GET  /healthz   200 once the model is ready
    POST /predict   {"pixels": [64 numbers from 0 to 16]} → {"digit", "chance", "rank"}

The model is trained from the data at start, which takes less than a second.  Listens on 127.0.0.1 and the port that
millpond gives each rank in MILLPOND_PORT, and prints it as JSON, so that a client can find it in the log.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType

import numpy as np
from digits import PIXELS, Weights, digits_load, forward, gradient, step, weights_make

STEPS = 400
BODY_LIMIT = 65536


def model_train() -> tuple[Weights, float]:
    """(weights, share of all pictures that it recognises)."""
    random = np.random.default_rng(7)
    pictures, digits = digits_load()
    weights = weights_make(random)
    speed = {name: np.zeros_like(array) for name, array in weights.items()}
    for _ in range(STEPS):
        chosen = random.integers(0, len(digits), 128)
        step(weights, speed, gradient(weights, pictures[chosen], digits[chosen]), rate=0.1)
    _, chances = forward(weights, pictures)
    return weights, float((chances.argmax(axis=1) == digits).mean())


class Service(ThreadingHTTPServer):
    """The server and its model."""

    daemon_threads = True

    def __init__(self, port: int, weights: Weights, rank: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.weights = weights
        self.rank = rank


class Handler(BaseHTTPRequestHandler):
    """The two routes."""

    server: Service

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._answer(200, {"ok": True, "rank": self.server.rank})
        else:
            self._answer(404, {"error": "no such page"})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self.path != "/predict" or length > BODY_LIMIT:
            self._answer(404 if self.path != "/predict" else 413, {"error": "POST a small body to /predict"})
            return
        try:
            pixels = np.array(json.loads(self.rfile.read(length))["pixels"], dtype=np.float64)
        except (ValueError, KeyError, TypeError):
            pixels = np.empty(0)
        if pixels.shape != (PIXELS,):
            self._answer(400, {"error": f"pixels must be {PIXELS} numbers"})
            return
        _, chances = forward(self.server.weights, pixels[None, :] / 16.0)
        digit = int(chances[0].argmax())
        self._answer(200, {"digit": digit, "chance": float(chances[0, digit]), "rank": self.server.rank})

    def _answer(self, status: int, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Silent: a probe every second would fill the log."""


def main() -> int:
    weights, share = model_train()
    rank = int(os.environ.get("RANK", "0"))
    service = Service(int(os.environ.get("MILLPOND_PORT") or 0), weights, rank)

    def leave(_number: int, _frame: FrameType | None) -> None:
        threading.Thread(target=service.shutdown).start()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGUSR1, leave)
    line = {"event": "serving", "rank": rank, "port": service.server_port, "recognised": round(share, 4)}
    print(json.dumps(line), flush=True)
    service.serve_forever(poll_interval=0.1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
