"""Results of a search, and their views: data frame, Optuna study."""
