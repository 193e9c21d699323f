"""Homes from databases: a table of devices and a table of rules, joined by user (section 4.6 of the paper)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from datasets.common.errors import DataError, install_hint

if TYPE_CHECKING:
    from fedrule.pipeline.database import DatabaseError
    from fedrule.pipeline.pipeline import Pipeline as Pipeline
    from fedrule.pipeline.pipeline import Vocabulary
    from fedrule.pipeline.settings import TableConfig as TableConfig

__all__ = ["DatabaseError", "Pipeline", "TableConfig", "Vocabulary"]

_MODULES = {"DatabaseError": "database", "Pipeline": "pipeline", "TableConfig": "settings", "Vocabulary": "pipeline"}


def __getattr__(name: str) -> object:
    """Import on first use: SQLAlchemy is an extra, and only databases need it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sqlalchemy":
            raise
        raise DataError(f"databases need {install_hint('pipeline')}") from None
