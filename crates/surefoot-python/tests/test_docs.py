"""Every example in the documentation runs: Python in this interpreter, shell commands with the built `surefoot`.

The blocks of a page run in order, in one folder. A block that cannot run says why, in a comment on the line before it:
`<!-- not run: REASON -->`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import REPO, binary

PAGES = ["README.md", *sorted(str(page.relative_to(REPO)) for page in (REPO / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n)?```(?P<kind>python|sh)\n(?P<code>.*?)^```$", flags=re.S | re.M
)


def blocks(page: str) -> list[re.Match[str]]:
    return list(BLOCK.finditer((REPO / page).read_text()))


@pytest.mark.parametrize("page", [page for page in PAGES if any(not block["reason"] for block in blocks(page))])
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(REPO / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    for place, block in enumerate(blocks(page)):
        if block["reason"]:
            continue
        if block["kind"] == "python":
            exec(compile(block["code"], f"{page}, block {place}", "exec"), {})
            continue
        path = f"{Path(binary()).parent}{os.pathsep}{os.environ['PATH']}"
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block["code"]],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert ran.returncode == 0, f"{page}, block {place}:\n{block['code']}\n{ran.stdout}\n{ran.stderr}"


def test_there_are_examples_of_both_kinds() -> None:
    found = [block for page in PAGES for block in blocks(page) if not block["reason"]]
    assert sum(block["kind"] == "python" for block in found) >= 10
    assert sum(block["kind"] == "sh" for block in found) >= 15
