"""Tools from what you have: today, typed Python functions.

`tool` makes a `MuleTool` of a function: what the model sees comes from its signature and docstring,
what the model sends is checked before the function is called, what it returns becomes the result.
"""

from mule.toolkit._function import progress, tool

__all__ = ["progress", "tool"]
