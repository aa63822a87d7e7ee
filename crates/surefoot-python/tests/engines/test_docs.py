"""The examples of docs/scale.md run, each on the engine that it is about."""

from __future__ import annotations

import re

import pytest
from conftest import REPO

BLOCKS = re.findall(r"```python\n(.*?)```", (REPO / "docs/scale.md").read_text(), flags=re.S)


@pytest.mark.parametrize("place", range(len(BLOCKS)))
def test_an_example(place: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(REPO)
    for kind in ("ray", "spark"):
        if f"import {kind.title()}" in BLOCKS[place]:
            request.getfixturevalue(kind)
    exec(compile(BLOCKS[place], "example", "exec"), {"__name__": "__main__"})


def test_there_are_examples():
    assert len(BLOCKS) == 4
