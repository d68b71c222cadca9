"""Frozen data, and nothing else: what the other layers pass around.

These modules import the standard library and pydantic; no I/O, no clock, no waiting.
"""
