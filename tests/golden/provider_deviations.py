"""Functions that the entries of `deviations.toml` about provider cases name."""
