"""Start a cluster and keep it until Ctrl-C:  python -m tests.kube [--nodes 20] [--folder DIR]"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from pathlib import Path

from tests.kube.cluster import Options, cluster_missing, cluster_up


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kube", description="A Kubernetes control plane on loopback.")
    parser.add_argument("--nodes", type=int, default=20, help="fake nodes with 8 cards each (20)")
    parser.add_argument(
        "--folder", type=Path, help="a new folder to keep state and logs in; otherwise they go at the end"
    )
    given = parser.parse_args()
    missing = cluster_missing()
    if missing:
        print(missing, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), cluster_up(Options(nodes=given.nodes), given.folder) as cluster:
        for name, seconds in cluster.laps.items():
            print(f"{seconds:6.1f} s  {name}")
        for name, size in cluster.memory().items():
            print(f"{size:6} MiB  {name}")
        print(f"export KUBECONFIG={cluster.kubeconfig()}\nCtrl-C ends it", flush=True)
        while True:
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
