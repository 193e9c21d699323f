"""Recommendations for real homes from a saved model: one home in a request, or all of them overnight."""

from fedrule.inference.output import RankedLists, Recommendation, Recommendations, Support
from fedrule.inference.recommender import Recommender
from fedrule.inference.request import BadHome, HomeRequest, RequestDevice, RequestRule
from fedrule.models.card import Card
from fedrule.models.file import SavedModel

__all__ = [
    "BadHome",
    "Card",
    "HomeRequest",
    "RankedLists",
    "Recommendation",
    "Recommendations",
    "Recommender",
    "RequestDevice",
    "RequestRule",
    "SavedModel",
    "Support",
]
