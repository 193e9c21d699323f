"""Methods that describe a candidate rule by features and rank it by trees."""
