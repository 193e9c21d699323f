"""Homes from databases: a table of devices and a table of rules, joined by user (section 4.6 of the paper)."""

from datasets.errors import DataError

try:
    import sqlalchemy  # noqa: F401
except ModuleNotFoundError:
    raise DataError('fedrule.pipeline needs the extra pipeline: pip install "fedrule[pipeline]"') from None

from fedrule.pipeline.errors import DatabaseError
from fedrule.pipeline.pipeline import Pipeline, homes_of
from fedrule.pipeline.settings import TableAt
from fedrule.pipeline.vocabulary import Vocabulary

__all__ = ["DatabaseError", "Pipeline", "TableAt", "Vocabulary", "homes_of"]
