"""Plain graph features of a candidate rule and the counts over homes behind them."""
