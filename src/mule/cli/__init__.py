"""The command `mule`, and the small model that is embedded for demos and tests."""
