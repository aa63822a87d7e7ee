"""The examples in the documentation run."""

from __future__ import annotations

import re

import pytest
from conftest import REPO

BLOCKS = [
    pytest.param(block, id=f"{name}-{place}")
    for name in ("README.md", "docs/python.md")
    for place, block in enumerate(re.findall(r"```python\n(.*?)```", (REPO / name).read_text(), flags=re.S))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example(block, monkeypatch):
    monkeypatch.chdir(REPO)
    exec(compile(block, "example", "exec"), {})


def test_there_are_examples():
    assert len(BLOCKS) >= 4
