"""Build hook of the wheel: ships the compiled core where there is a C compiler, and pure Python everywhere else.

``MILLPOND_PURE=1`` asks for the pure wheel.  An editable install stays pure, so that what one edits is what runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """See the module."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile in a process of its own, and add what came out to the wheel."""
        if version == "editable" or os.environ.get("MILLPOND_PURE", "") not in {"", "0"}:
            return
        compiler = (os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "gcc")).split()[0]
        if shutil.which(compiler) is None:
            self.app.display_warning(f"no C compiler ({compiler}): the wheel is pure Python, and slower")
            return
        self._folder = tempfile.mkdtemp(prefix="millpond-wheel-")
        subprocess.run(
            [sys.executable, str(Path(self.root) / "tools" / "compile.py"), "--into", self._folder], check=True
        )
        modules = [path for path in Path(self._folder).rglob("*") if path.is_file()]
        build_data["force_include"].update({str(path): path.relative_to(self._folder).as_posix() for path in modules})
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Clean up."""
        folder = getattr(self, "_folder", None)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
