"""Recommendations for real homes from a saved model: one home in a request, or all of them overnight."""

from fedrule.inference.asked_home import AskedHome, Automated, BadHome, Owned
from fedrule.models.card import Card
from fedrule.models.model_file import SavedModel
from fedrule.inference.ranked import Ranked
from fedrule.inference.recommendation import Recommendation, Recommendations, Support
from fedrule.inference.recommender import Recommender

__all__ = [
    "AskedHome",
    "Automated",
    "BadHome",
    "Card",
    "Owned",
    "Ranked",
    "Recommendation",
    "Recommendations",
    "Recommender",
    "SavedModel",
    "Support",
]
