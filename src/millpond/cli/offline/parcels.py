"""Values on their way between processes.

Frozen dataclasses that were compiled cannot be unpickled as they are: their state may not be set.  So every dataclass
goes as its class and the arguments that make it.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
from typing import Any


class _Packer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if not dataclasses.is_dataclass(kind) or issubclass(kind, BaseException):
            return NotImplemented
        return kind, tuple(getattr(value, field.name) for field in dataclasses.fields(kind))


def parcel_pack(value: object) -> bytes:
    """`value` as bytes for `pickle.loads`.  Its dataclasses take all their fields by position."""
    target = io.BytesIO()
    _Packer(target, pickle.HIGHEST_PROTOCOL).dump(value)
    return target.getvalue()
