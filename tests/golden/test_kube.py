"""What the Kubernetes engine gives to a cluster, object by object."""

from __future__ import annotations

import pytest

from tests.golden.kube_files import FOLDER, compiled, text


@pytest.mark.parametrize("name", sorted(compiled()))
def test_compiled_objects_are_the_golden_ones(name: str) -> None:
    expected = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    assert text(compiled()[name]) == expected, "python -m tests.golden.kube_files writes them anew"


def test_every_golden_file_is_compiled_from_something() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(compiled())
