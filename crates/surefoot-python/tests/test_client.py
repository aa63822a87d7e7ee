"""Both clients against a real server: killed, overloaded, slow, with keys and TLS."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from service import Awaited, Between, Service

import surefoot
from surefoot.client import (
    BatchError,
    NotAllowedError,
    NotFoundError,
    RefusedError,
    Reward,
    RewardsError,
    TooSlowError,
    UnexpectedError,
    UnreachableError,
)

WITHOUT_HTTPX = importlib.util.find_spec("httpx2") is None
CONTEXT = {"x": 0.5, "device": "phone"}


@pytest.fixture(
    params=[
        pytest.param(surefoot.Client, id="sync"),
        pytest.param(Awaited, id="async", marks=pytest.mark.skipif(WITHOUT_HTTPX, reason="httpx2 is not installed")),
    ]
)
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes clients of either kind for the loop of the tests."""
    made: list[Any] = []

    def connect(url: str, loop: str = "shop", **settings: Any) -> Any:
        made.append(request.param(url, loop, **settings))
        return made[-1]

    yield connect
    for client in made:
        client.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    made: list[Service] = []

    def serve(**settings: Any) -> Service:
        made.append(Service(tmp_path, **settings))
        return made[-1]

    yield serve
    for service in made:
        service.kill()


@pytest.fixture
def between() -> Iterator[Callable[[str], Between]]:
    made: list[Between] = []

    def between(url: str) -> Between:
        made.append(Between(url))
        return made[-1]

    yield between
    for proxy in made:
        proxy.close()


def test_a_decision_and_its_reward(connect: Any, serve: Any) -> None:
    client = connect(serve().url)
    decision = client.decide(CONTEXT, eligible=["green"])
    assert decision.action == "green" and decision.propensity == 1.0 and decision.round == 0
    assert not decision.again and not decision.shadow and decision.reward_until.tzinfo is not None
    assert client.reward(decision, 1.0) == "joined"
    assert client.reward(decision.event_id, 1.0) == "duplicate"
    stored = client.decision(decision.event_id)
    assert stored["policy_version"] == decision.policy_version and stored["action"] == "green"
    assert [reward["reward"] for reward in stored["rewards"]] == [1.0]
    assert client.reward("a/b ?", 0.5, reward_id="r") == "parked"
    assert client.status()["decisions"] == 1 and client.loops()[0]["parked"] == 1


def test_the_same_event_gets_the_same_decision(connect: Any, serve: Any) -> None:
    client = connect(serve().url)
    first = client.decide(CONTEXT, event_id="visit/1")
    again = client.decide(CONTEXT, event_id="visit/1")
    assert again.again and again.propensity == first.propensity and again.action == first.action
    with pytest.raises(RefusedError, match="422"):
        client.decide({"x": 2}, event_id="visit/1")
    assert client.decision("visit/1")["event_id"] == "visit/1"


def test_a_deferred_decision_counts_when_it_is_shown(connect: Any, serve: Any) -> None:
    client = connect(serve().url)
    decision = client.decide(CONTEXT, event_id="a/1", defer=True)
    assert decision.deferred and not client.decide(CONTEXT).deferred
    assert client.reward(decision, 1.0) == "parked"
    assert client.activate(decision) == "activated" and client.activate("a/1") == "duplicate"
    assert [reward["status"] for reward in client.decision("a/1")["rewards"]] == ["joined"]
    assert client.decide_many([{"context": CONTEXT, "defer": True}])[0].deferred
    with pytest.raises(NotFoundError):
        client.activate("unknown")
    with pytest.raises(RefusedError, match="candidates"):
        client.decide(CONTEXT, candidates=[{"id": "a"}])


def test_many_decisions_and_rewards_in_few_requests(connect: Any, serve: Any, between: Any) -> None:
    proxy = between(serve().url)
    client = connect(proxy.url)
    requests = [{"context": {"x": i}, "event_id": f"e{i}"} for i in range(2500)]
    decisions = client.decide_many(requests)
    assert [one.event_id for one in decisions] == [f"e{i}" for i in range(2500)]
    assert len(proxy.seen) == 3
    assert client.reward_many(Reward(one.event_id, 1.0) for one in decisions) == ["joined"] * 2500
    assert client.decide_many([]) == []
    listed = client.decisions(2498)
    assert [one["event_id"] for one in listed] == ["e2498", "e2499"]


def test_a_wrong_line_does_not_spoil_the_others(connect: Any, serve: Any) -> None:
    client = connect(serve().url)
    with pytest.raises(BatchError, match="1 of 3 lines") as caught:
        client.decide_many([{"context": {"x": 1}}, {"context": {"x": "one"}}, {"context": {"x": 3}}])
    first, wrong, last = caught.value.answers
    assert isinstance(wrong, RefusedError) and "x" in str(wrong)
    assert {first.action, last.action} <= {"red", "green"} and client.status()["decisions"] == 2
    with pytest.raises(surefoot.SettingError, match="request should be a mapping with a context"):
        client.decide_many([{"x": 1}])


def test_refusals_are_typed_and_say_what_is_allowed(connect: Any, serve: Any) -> None:
    url = serve().url
    client = connect(url)
    with pytest.raises(RefusedError, match="eligible should be one of red, green") as caught:
        client.decide(CONTEXT, eligible=["blue"])
    assert caught.value.status == 422 and caught.value.kind == "action" and not caught.value.passing
    decision = client.decide(CONTEXT)
    with pytest.raises(RefusedError, match="7"):
        client.reward(decision, 7.0)
    with pytest.raises(NotFoundError, match="the loop should be one of shop"):
        connect(url, "shoe").status()
    with pytest.raises(NotFoundError):
        client.decision("nobody")
    with pytest.raises(RefusedError, match="limit should be from 1 to 1000"):
        client.decisions(limit=0)
    with pytest.raises(surefoot.SettingError, match="patience should be"):
        connect(url, patience=0)


def test_keys(connect: Any, serve: Any) -> None:
    keys = "".join(
        f'[[key]]\nname = "{name}"\nroles = {json.dumps(roles)}\nsha256 = "{sha256(name.encode()).hexdigest()}"\n'
        for name, roles in {"web": ["decide", "reward"], "eyes": ["read"]}.items()
    )
    url = serve(before=keys).url
    web, eyes = connect(url, key="web"), connect(url, key="eyes")
    assert web.reward(web.decide(CONTEXT), 1.0) == "joined"
    assert eyes.status()["rewards"] == 1 and "surefoot_decisions_total" in eyes.metrics()
    for wrong, status in [(connect(url, key="wrong"), 401), (connect(url), 401), (eyes, 403)]:
        with pytest.raises(NotAllowedError) as caught:
            wrong.decide(CONTEXT)
        assert caught.value.status == status and isinstance(caught.value, PermissionError)


def test_tls_with_an_authority_of_ones_own(connect: Any, serve: Any, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not here")
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem"
    subprocess.run(
        [*make.split(), "-addext", "subjectAltName=IP:127.0.0.1"], cwd=tmp_path, check=True, capture_output=True
    )
    url = serve(before='tls = { certificate = "cert.pem", key = "key.pem" }\n').url
    assert url.startswith("https://")
    trusting = connect(url, ca=tmp_path / "cert.pem")
    assert trusting.reward(trusting.decide(CONTEXT), 1.0) == "joined"
    with pytest.raises(UnreachableError, match="certificate verify failed") as caught:
        connect(url, patience=60).status()  # waiting would not help
    assert not caught.value.passing


def test_a_lost_answer_is_asked_for_again_and_decided_once(connect: Any, serve: Any, between: Any) -> None:
    proxy = between(serve().url)
    client = connect(proxy.url)
    proxy.plan.extend(["lost", "cut", "busy", 502, "lost"])
    decision = client.decide(CONTEXT)
    assert len({body for _, body in proxy.seen}) == 1 and decision.again, "it is the same event each time"
    assert client.status()["decisions"] == 1
    proxy.plan.append("lost")
    assert client.reward(decision, 1.0) == "duplicate"
    proxy.plan.append("lost")
    many = client.decide_many([{"context": CONTEXT}] * 10)
    assert all(one.again for one in many) and client.status()["decisions"] == 11


def test_an_act_is_not_done_twice(connect: Any, serve: Any, between: Any) -> None:
    proxy = between(serve().url)
    client = connect(proxy.url)
    client.decide_many([{"context": CONTEXT}] * 4)
    proxy.plan.append("lost")
    with pytest.raises(UnreachableError):
        client.close_round()
    assert sum(path.endswith("/close") for path, _ in proxy.seen) == 1 and client.status()["waiting_rounds"] == 1


def test_a_slow_server(connect: Any, serve: Any, between: Any) -> None:
    proxy = between(serve().url)
    client = connect(proxy.url, timeout=0.2, patience=0.5)
    proxy.plan.extend(["hang"] * 20)
    with pytest.raises(TooSlowError, match="no answer in time") as caught:
        client.decide(CONTEXT)
    assert isinstance(caught.value, TimeoutError) and len(proxy.seen) >= 2
    proxy.plan.clear()
    proxy.plan.append("hang")
    patient = connect(proxy.url, timeout=1.0)
    assert patient.decide(CONTEXT).action in ("red", "green"), "the next attempt is answered"


def test_a_server_that_is_killed_and_started_again(connect: Any, serve: Any) -> None:
    service = serve()
    client = connect(service.url)
    before = client.decide(CONTEXT, event_id="before")
    service.kill()
    with pytest.raises(UnreachableError) as caught:
        connect(service.url, patience=0.3).status()
    assert caught.value.undone and isinstance(caught.value, ConnectionError)
    threading.Timer(1.0, service.start).start()
    assert client.decide(CONTEXT, event_id="before").propensity == before.propensity
    assert client.decide(CONTEXT, event_id="after").event_id == "after"


def test_another_server(connect: Any, between: Any) -> None:
    proxy = between("http://127.0.0.1:9")
    proxy.plan.extend([200, 404])
    client = connect(proxy.url)
    for _ in range(2):
        with pytest.raises(UnexpectedError, match="a proxy"):
            client.status()


def test_rewards_in_the_background_lose_none(connect: Any, serve: Any, between: Any) -> None:
    service = serve()
    proxy = between(service.url)
    client = connect(proxy.url)
    decisions = client.decide_many([{"context": CONTEXT}] * 2000)
    proxy.plan.extend(["lost", "busy", "cut", 503, "", "lost", "", 429, "cut"])
    with client.rewards(most_waiting=300, wait=60) as rewards:
        for place, decision in enumerate(decisions):
            rewards.send(decision, 1.0)
            if place == 1000:
                service.kill()
                threading.Timer(0.5, service.start).start()
    assert client.status()["rewards"] == 2000 and client.status()["parked"] == 0
    assert not proxy.plan, "all faults have happened"


def test_rewards_that_cannot_be_sent_are_in_the_error(connect: Any, serve: Any) -> None:
    service = serve()
    client = connect(service.url)
    sender = client.rewards(most_waiting=4, wait=0.1, close_within=0.5)
    service.kill()
    with pytest.raises(RewardsError, match="4 rewards could not be sent") as caught:
        with sender as rewards:
            for n in range(4):
                rewards.send(f"e{n}", 1.0, reward_id="r")
            with pytest.raises(RewardsError, match="'e4' was not taken: 4 rewards wait already"):
                rewards.send("e4", 1.0)
    assert caught.value.unsent == [Reward(f"e{n}", 1.0, "r") for n in range(4)] and not caught.value.refused
    service.start()
    assert client.reward_many(caught.value.unsent) == ["parked"] * 4


def test_rewards_that_are_refused_are_in_the_error(connect: Any, serve: Any) -> None:
    client = connect(serve().url)
    one, two = client.decide(CONTEXT), client.decide(CONTEXT)
    with pytest.raises(RewardsError, match="0 rewards could not be sent, and 1 were refused") as caught:
        with client.rewards() as rewards:
            rewards.send(one, 7.0)
            rewards.send(two, 1.0)
    ((refused, error),) = caught.value.refused
    assert refused == Reward(one.event_id, 7.0) and isinstance(error, RefusedError)
    assert client.status()["rewards"] == 1
    with pytest.raises(surefoot.SettingError, match="with statement"):
        client.rewards().send(one, 1.0)


def test_an_error_in_the_block_does_not_lose_rewards(connect: Any, serve: Any) -> None:
    client = connect(serve().url)
    decision = client.decide(CONTEXT)
    with pytest.raises(ZeroDivisionError), client.rewards() as rewards:
        rewards.send(decision, 1.0)
        1 / 0  # noqa: B018
    assert client.status()["rewards"] == 1


def learned(client: Any, rounds: int = 1) -> None:
    """Waits until rounds were learned from."""
    while sum("learned_at" in one for one in client.rounds()) < rounds:
        assert client.status()["failed"] is None
        time.sleep(0.05)


def test_everything_that_can_be_read(connect: Any, serve: Any, tmp_path: Path) -> None:
    client = connect(serve(window="1s", records=200, gate="improvement").url)
    assert client.rules()["actions"] == ["red", "green"]
    decisions = client.decide_many([{"context": {"x": i % 3 - 1, "device": "phone"}} for i in range(200)])
    client.reward_many(Reward(one.event_id, float(one.action == "red")) for one in decisions)
    learned(client)
    assert client.rounds()[0]["records"] == 200
    proven = client.certificates()
    assert proven and all(one["recomputable"] for one in proven)
    assert surefoot.Certificate.from_json(json.dumps(proven[-1]["certificate"])).delta == 0.05
    assert json.loads(client.ledger().splitlines()[0]) and client.acts() == [] and client.challengers() == []
    assert client.lint()["summary"]["records"] == 200
    (tmp_path / "round.parquet").write_bytes(client.logs(0))
    assert len(client.logs(0, "jsonl").splitlines()) == 200
    assert surefoot.lint(tmp_path / "round.parquet").ok
    first = client.rules()["first_policy"]
    path = client.save_policy(first, tmp_path / "policies")
    assert surefoot.Policy.load(path).n_actions == 2
    evaluated = client.evaluate(path)
    assert evaluated == client.evaluate(surefoot.Policy.load(path)), "a policy is as good as its file"
    assert "policy" in json.dumps(evaluated)
    with pytest.raises(surefoot.FileError, match="cannot be read"):
        client.evaluate(tmp_path / "nothing")
    with pytest.raises(RefusedError, match="delta should be in"):
        client.evaluate(path, delta=2.0)
    with pytest.raises(NotFoundError):
        client.save_policy("0" * 64, tmp_path / "policies")


def test_everything_that_can_be_operated(connect: Any, serve: Any, tmp_path: Path) -> None:
    client = connect(serve(window="1s", gate="improvement").url)
    first = client.rules()["first_policy"]
    client.decide_many([{"context": {"x": 1.0, "who": i % 2}} for i in range(40)])
    assert client.pause()["paused"] and not client.resume()["paused"]
    assert client.close_round()["waiting_rounds"] == 1
    learned(client)
    policy = surefoot.Policy.load(client.save_policy(first, tmp_path / "policies"))
    brought = client.challenge(surefoot.Policy.uniform(policy.n_actions))
    assert brought["standing"] == "waiting" and client.challengers()[0]["policy"] == brought["policy"]
    client.decide_many([{"context": {"x": 1.0}}] * 2)
    assert client.rollback(first)["paused"]
    with pytest.raises(RefusedError, match="409"):
        client.retrain()
    assert client.erase(column="who", value=1)["decisions"] == 20
    with pytest.raises(surefoot.SettingError, match="either an event_id or a column"):
        client.erase()
    assert [act["act"].split()[0] for act in client.acts()]


def test_events_as_they_happen(connect: Any, serve: Any) -> None:
    service = serve(window="1s")
    client, watcher = connect(service.url), connect(service.url)
    client.decide_many([{"context": CONTEXT}] * 30)
    threading.Timer(0.3, client.close_round).start()
    seen = []
    with contextlib.closing(watcher.events()) as events:
        for event in events:
            seen.append(event)
            if "learned" in json.dumps(event):
                break
    assert len(seen) >= 2
    events = watcher.events()
    killing = threading.Timer(0.5, service.kill)
    killing.start()
    with pytest.raises(UnreachableError, match="the events have ended"):
        list(events)
    killing.join()
    service.start()
    with pytest.raises(NotFoundError):
        next(iter(connect(service.url, "shoe").events()))


def test_threads_share_a_client(serve: Any) -> None:
    with surefoot.Client(serve().url, "shop") as client:
        found: list[str] = []

        def ask() -> None:
            for _ in range(50):
                found.append(client.decide(CONTEXT).event_id)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 400 and client.status()["decisions"] == 400


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own(serve: Any) -> None:
    with surefoot.Client(serve().url, "shop") as client:
        client.decide(CONTEXT, event_id="parent")
        child = os.fork()
        if child == 0:
            ok = all(client.decide(CONTEXT, event_id=f"child-{n}").event_id == f"child-{n}" for n in range(50))
            os._exit(0 if ok else 1)
        for n in range(50):
            assert client.decide(CONTEXT, event_id=f"parent-{n}").event_id == f"parent-{n}"
        assert os.waitpid(child, 0)[1] == 0
        assert client.status()["decisions"] == 101
