"""Card models as job files name them, from what drivers and labels say."""

from __future__ import annotations

import re

_FORM_FACTORS = re.compile(r"(SXM\d*|PCIE|HBM\d*E?|NVL|OAM)\Z", re.IGNORECASE)
_MEMORY = re.compile(r"\d+GB\Z", re.IGNORECASE)
_BRANDS = frozenset({"nvidia", "tesla", "geforce", "quadro", "graphics", "gpu", "generation"})


def model_name(text: str, memory: int) -> str:
    """``NVIDIA A800-SXM4-80GB`` → ``A800-80GB``; ``NVIDIA H200`` (143771 MiB) → ``H200-141GB``.

    The vendor's name and form factor go; the memory stays, and is added where the driver leaves it out, so that a model
    says always what a job file would ask for.
    """
    words = [word for word in re.split(r"[\s-]+", text.strip()) if word]
    kept = [word for word in words if word.lower() not in _BRANDS and not _FORM_FACTORS.match(word)]
    named = [word for word in kept if _MEMORY.match(word)]
    model = "-".join(word for word in kept if not _MEMORY.match(word)) or "GPU"
    size = named[0].upper() if named else f"{round(memory / 1024)}GB" if memory else ""
    return f"{model}-{size}" if size else model
