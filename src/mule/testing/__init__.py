"""Doubles for tests of what is built on `mule`, ours among them: virtual time."""

from mule.testing.clock import AutojumpLoop, run_virtually, virtual_backend, virtual_backends

__all__ = ["AutojumpLoop", "run_virtually", "virtual_backend", "virtual_backends"]
