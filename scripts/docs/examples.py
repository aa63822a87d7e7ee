"""Lets examples in docstrings be shown as code: they stand under a heading of their own, as the numpy style has it."""

import re
from typing import Any

import griffe

FIRST = re.compile(r"(?<!--------\n)(?:(?<=\n\n)|\A)(?=>>> )")


class Examples(griffe.Extension):
    """Puts the heading before the first example."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = FIRST.sub("Examples\n--------\n", obj.docstring.value, count=1)
