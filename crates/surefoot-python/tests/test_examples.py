"""The examples run, say what they should and leave a picture."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPO

pytest.importorskip("matplotlib")


def run(name: str, folder: Path, *arguments: str) -> str:
    """What an example prints; the picture is looked at too."""
    example = str(REPO / "examples" / f"{name}.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", example, str(folder), *arguments],
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    picture = (folder / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 20_000
    return done.stdout


def test_quickstart(tmp_path: Path) -> None:
    text = run("quickstart", tmp_path)
    rows = [line.split() for line in text.splitlines() if re.match(r"^ +\d", line)]
    assert [row[0] for row in rows] == [str(round) for round in range(1, 9)]
    numbers = [[float(cell) for cell in row[1:]] for row in rows]
    assert all(certified <= true for _, certified, true in numbers), "what is certified holds"
    assert numbers[-1][2] > 0.65 and numbers[-1][1] > 0.55 and numbers[0][0] < 0.45
    assert "reward at least" in text and "best possible 0.700" in text


def test_own_logs(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    text = run("own_logs", tmp_path)
    assert "0 errors" in text
    assert re.search(r"^SNIPS +0\.4651", text, re.MULTILINE)
    # The numbers of the README, which are those of the command line.
    assert re.search(r"certified +at least 0\.478", text) and re.search(r"newest round +at least \+0\.10", text)
    assert "the same decisions" in text
    assert (tmp_path / "next.safetensors").exists() and (tmp_path / "next.certificates.json").exists()


def test_paper_figure(tmp_path: Path) -> None:
    text = run("paper_figure", tmp_path, "2")
    last = {}
    for line in text.splitlines():
        found = re.findall(r"(-0\.\d+) ±", line)
        if found:
            last[line.split()[0]] = [float(risk) for risk in found]
    assert list(last) == ["SeqAdjLS", "SeqLS", "SCRM", "BatchLS"]
    assert len({tuple(risks[:1]) for risks in last.values()}) == 1, "all start from the same policy"
    assert all(risks[-1] < risks[0] - 0.3 for risks in last.values())
    assert last["SeqAdjLS"][-1] < last["SeqLS"][-1], "the paper's order"
    assert last["SCRM"][1] > last["SeqLS"][1], "small first rounds are slow"
