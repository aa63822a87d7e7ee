"""The examples around a running service: curl, a web service with FastAPI, and a notebook."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import REPO, binary
from service import Service

import surefoot
from surefoot.client import Reward

EXAMPLES = REPO / "examples"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Service]:
    """The loop that `surefoot serve init` makes from the example's log."""
    made = [binary(), "serve", "init", str(EXAMPLES / "logs.csv"), "--ignore", "pi_*", "--out", "made.toml"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    service = Service(tmp_path, loops=(tmp_path / "made.toml").read_text())
    yield service
    service.kill()


def test_the_lines_of_the_documentation(shop: Service, capsys: pytest.CaptureFixture[str]) -> None:
    (lines,) = re.findall(r"```python service\n(.*?)```", (REPO / "docs/python.md").read_text(), re.DOTALL)
    exec(compile(lines.replace("http://127.0.0.1:8080", shop.url), "docs/python.md", "exec"), {})
    assert capsys.readouterr().out.endswith("81 improvement []\n")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")
def test_curl(shop: Service) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([EXAMPLES / "curl.sh", *arguments], capture_output=True, text=True, check=False)

    done = run(shop.url, "shop")
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "["))]
    assert 0 < answers[0]["propensity"] <= 1 and answers[1]["outcome"] == "joined"
    assert [answer["status"] for answer in answers[2:5]] == [201] * 3
    assert answers[5]["decisions"] == 4 and answers[6] == []
    wrong = run(shop.url, "shoe")
    assert wrong.returncode != 0 and "the loop should be one of shop" in wrong.stdout


def test_a_web_service_decides_and_rewards(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx2")
    from fastapi.testclient import TestClient

    monkeypatch.setenv("SUREFOOT_URL", shop.url)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    sys.modules.pop("fastapi_app", None)
    import fastapi_app

    with TestClient(fastapi_app.app) as web, surefoot.Client(shop.url, "shop") as client:
        offers = [web.post("/offers", json={"age": 20 + i, "device": "phone"}).json() for i in range(20)]
        assert {offer["offer"] for offer in offers} <= {str(action) for action in client.rules()["actions"]}
        for offer in offers[:10]:
            assert web.post(f"/clicks/{offer['event_id']}").status_code == 202
        assert web.post("/offers", json={"age": "old"}).status_code == 422
        shop.kill()
        alone = web.post("/offers", json={"age": 30}).json()
        assert alone == {"offer": fastapi_app.USUAL, "event_id": None}, "without the loop, visitors get the usual offer"
        assert web.post(f"/clicks/{offers[10]['event_id']}").status_code == 202
        shop.start()
    with surefoot.Client(shop.url, "shop") as client:
        status = client.status()
    assert (status["decisions"], status["rewards"]) == (20, 11), "no click was lost when the web service ended"


def run_cells(path: Path) -> dict[str, Any]:
    """Runs the cells of a notebook, one after the other, and shows the last value of each as a notebook would."""
    notebook = json.loads(path.read_text())
    names: dict[str, Any] = {}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == [] and cell["execution_count"] is None, "outputs are not stored"
        parsed = ast.parse("".join(cell["source"]))
        last = parsed.body.pop() if isinstance(parsed.body[-1], ast.Expr) else None
        exec(compile(parsed, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            assert repr(eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names))
    return names


def test_a_notebook_watches_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib").use("Agg")
    service = Service(tmp_path, window="1s", records=200, gate="improvement")
    try:
        with surefoot.Client(service.url, "shop") as client:
            for _ in range(2):
                decisions = client.decide_many([{"context": {"x": i % 3 - 1}} for i in range(200)])
                client.reward_many(Reward(one.event_id, float(one.action == "red")) for one in decisions)
            while sum("learned_at" in one for one in client.rounds()) < 2:
                assert client.status()["failed"] is None
            client.decide_many([{"context": {"x": 1}}] * 3)
            for name, value in {"URL": service.url, "LOOP": "shop", "EVENTS": "1"}.items():
                monkeypatch.setenv(f"SUREFOOT_{name}", value)
            closing = threading.Timer(1.0, client.close_round)
            closing.start()
            names = run_cells(EXAMPLES / "watch_a_loop.ipynb")
            closing.join()
            assert "round_closed" in capsys.readouterr().out
            assert list(names["rounds"].index) == [0, 1, 2] and len(names["newest"]) == 403
            assert len(names["proven"]) > 0 and names["proven"]["at least"].between(0, 1).all()
    finally:
        service.kill()
