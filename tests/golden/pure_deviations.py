"""Functions that the entries of `deviations.toml` about pure tables name."""
