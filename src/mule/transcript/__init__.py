"""Pure functions over transcripts: no waiting, no clock, no randomness; they import `mule.values` alone."""
