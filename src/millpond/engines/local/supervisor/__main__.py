"""Entry point of ``python -I -S <this folder>``: loads the folder as a package and runs it."""

import importlib.util
import sys
from pathlib import Path

_NAME = "millpond_supervisor"


def _load() -> int:
    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        _NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"cannot load {folder}")
    package = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = package
    spec.loader.exec_module(package)
    main = importlib.import_module(f"{_NAME}.main")
    return int(main.main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(_load())
