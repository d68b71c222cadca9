"""Runs a pure table: each row through our function of that meaning."""

from __future__ import annotations

from golden.compare import Case, Difference


def run_case(case: Case) -> list[Difference]:
    """See `golden.compare`."""
    return [Difference("function", note=f"no function for {case['function']} yet")]
