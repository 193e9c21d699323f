"""Homes from databases: a table of devices and a table of rules, joined by user (section 4.6 of the paper)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from datasets.common.errors import DataError

if TYPE_CHECKING:
    from fedrule.pipeline.database import DatabaseError
    from fedrule.pipeline.pipeline import Pipeline as Pipeline
    from fedrule.pipeline.pipeline import Vocabulary
    from fedrule.pipeline.settings import TableAt as TableAt

__all__ = ["DatabaseError", "Pipeline", "TableAt", "Vocabulary"]

_WHERE = {"DatabaseError": "errors", "Pipeline": "pipeline", "TableAt": "settings", "Vocabulary": "vocabulary"}


def __getattr__(name: str) -> object:
    """On first use: SQLAlchemy is an extra, and whoever never reads a database does not need it."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sqlalchemy":
            raise
        raise DataError('databases need the extra pipeline: pip install "fedrule[pipeline]"') from None
