"""Every example in a docstring runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import mule

# These two are programs: to import one is to run it.
_PROGRAMS = {"mule.cli.llama_child", "mule.cli.__main__"}
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(mule.__path__, "mule.") if module.name not in _PROGRAMS
)


@pytest.mark.real_io
@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_give_what_they_say(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    found = [
        test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples
    ]
    assert len(found) >= 20
