"""Functions that the entries of `deviations.toml` about loop cases name."""
