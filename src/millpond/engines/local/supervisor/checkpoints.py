"""New and newer files in a checkpoint folder, by looking at its top level."""

from __future__ import annotations

import os


def newest(folder: str) -> tuple[int, str]:
    """(modification time in ns, name) of the newest entry; (0, "") if there is none.

    Names that end in .tmp or begin with a dot are files being written.
    """
    best = (0, "")
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".tmp") or entry.name.startswith("."):
                    continue
                try:
                    found = (entry.stat(follow_symlinks=False).st_mtime_ns, entry.name)
                except FileNotFoundError:
                    continue
                best = max(best, found)
    except OSError:
        return best
    return best
