"""A world as an environment of Gymnasium."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

import surefoot  # noqa: E402
from surefoot.gym import BanditEnv  # noqa: E402


@pytest.fixture(scope="module")
def digits() -> surefoot.Environment:
    return surefoot.Environment.dataset("digits", seed=1)


def small(n: int = 12) -> surefoot.Environment:
    """A data set of few interactions: eleven are left of twelve, as one trains the first policy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    return surefoot.Environment.labelled(X, np.arange(n) % 3, X, np.arange(n) % 3, noise=0.0, seed=1)


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("kind", ["synthetic", "labels", "finite"])
def test_gymnasium_agrees(kind: str, length: int, digits: surefoot.Environment) -> None:
    worlds = {
        "synthetic": surefoot.Environment.synthetic(seed=1),
        "labels": digits,
        "finite": surefoot.Environment.finite(np.eye(3), np.full((3, 2), 0.5)),
    }
    env = BanditEnv(worlds[kind], episode_length=length)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*WARN.*")
        # Contexts have no bounds, and there is nothing to render.
        warnings.filterwarnings("ignore", message=".*(infinity|alternative render modes).*")
        check_env(env)
    assert env.observation_space.shape == (worlds[kind].n_features,)
    assert env.observation_space.dtype == np.float32
    assert env.action_space.n == worlds[kind].n_actions


def test_interactions_are_those_of_collect(digits: surefoot.Environment) -> None:
    logs = digits.collect(digits.first_policy(alpha=1.0), 300)
    env = BanditEnv(digits)
    for i, action in enumerate(logs.action):
        x, info = env.reset()
        np.testing.assert_array_equal(x, logs.X[i])
        assert info == {"interaction": i, "round": 0}
        following, reward, terminated, truncated, info = env.step(action)
        assert reward == logs.reward[i]
        assert (terminated, truncated, info["interaction"]) == (True, False, i)
    np.testing.assert_array_equal(following, env.reset()[0])
    assert 0 < logs.reward.sum() < 300


def test_an_action_decides_its_reward() -> None:
    env = BanditEnv(surefoot.Environment.finite(np.eye(2), np.array([[1.0, 0.0], [0.0, 1.0]])))
    seen = set()
    for _ in range(20):
        x, _ = env.reset()
        best = int(x.argmax())
        now = env.unwrapped._now
        assert env.step(best)[1] == 1.0
        env.reset(options={"start": now})
        assert env.step(np.int64(1 - best))[1] == 0.0
        seen.add(best)
    assert seen == {0, 1}


def test_episodes_end() -> None:
    env = BanditEnv(surefoot.Environment.synthetic(seed=1), episode_length=3)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset()
    assert [env.step(0)[2] for _ in range(3)] == [False, False, True]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    assert env.reset()[1]["interaction"] == 3


def test_a_data_set_ends_and_begins_again() -> None:
    world = small()
    env = BanditEnv(world, episode_length=100)
    for start in (0, 7):
        first, _ = env.reset(options={"start": start})
        steps = [env.step(1) for _ in range(world.interactions)]
        assert [truncated for *_, truncated, _ in steps] == [False] * (world.interactions - 1) + [True]
        assert not any(terminated for _, _, terminated, *_ in steps)
        seen = [info["interaction"] for *_, info in steps]
        assert seen == [(start + i) % world.interactions for i in range(world.interactions)]
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(1)
        np.testing.assert_array_equal(env.reset()[0], first)
        again = [env.step(1) for _ in range(world.interactions)]
        assert [step[1] for step in again] == [step[1] for step in steps]
        assert again[-1][3]


def test_the_last_interaction_may_also_end_an_episode() -> None:
    world = small()
    env = BanditEnv(world)
    env.reset(options={"start": 0})
    for _ in range(world.interactions - 1):
        assert env.step(0)[2:4] == (True, False)
        env.reset()
    assert env.step(0)[2:4] == (True, True)


def test_seeds_choose_where_to_begin(digits: surefoot.Environment) -> None:
    for world in (digits, surefoot.Environment.synthetic(seed=1)):
        env = BanditEnv(world)
        places = [env.reset(seed=seed)[1]["interaction"] for seed in (1, 2, 3, 1)]
        assert places[0] == places[3] and len(set(places)) == 3
        assert env.reset()[1]["interaction"] == places[0], "nothing was done there yet"


def test_rounds_drift() -> None:
    world = surefoot.Environment.synthetic(drift=18.0, seed=1)
    env = BanditEnv(world)
    x, _ = env.reset(options={"start": 5, "round": 4})
    np.testing.assert_array_equal(x, world.collect(surefoot.Policy.uniform(5), 1, round=4, start=5).X[0])
    np.testing.assert_array_equal(x, BanditEnv(world, round=4).reset(options={"start": 5})[0])
    assert not np.array_equal(x, env.reset(options={"start": 5, "round": 0})[0])


def test_what_is_not_allowed(digits: surefoot.Environment) -> None:
    env = BanditEnv(digits)
    with pytest.raises(surefoot.SettingError, match="episode_length should be a whole number from 1 on, but is 0"):
        BanditEnv(digits, episode_length=0)
    for options, why in (
        ({"begin": 3}, "start and round, but is begin"),
        ({"start": digits.interactions}, f"from 0 to {digits.interactions - 1}"),
        ({"round": -1}, "from 0 on, but is -1"),
    ):
        with pytest.raises(surefoot.SettingError, match=why):
            env.reset(options=options)
    env.reset()
    with pytest.raises(surefoot.SettingError, match="action should be a whole number from 0 to 9, but is 10"):
        env.step(10)


def test_an_agent_of_others_learns() -> None:
    """Epsilon-greedy on means per action does better than chance where one action is best everywhere."""
    env = BanditEnv(surefoot.Environment.finite(np.eye(2), np.tile([0.2, 0.8, 0.3], (2, 1))))
    rng, total, count = np.random.default_rng(1), np.zeros(3), np.ones(3)
    for _ in range(500):
        env.reset()
        action = int(rng.integers(3)) if rng.random() < 0.1 else int((total / count).argmax())
        total[action] += env.step(action)[1]
        count[action] += 1
    assert int((total / count).argmax()) == 1 and total.sum() / 500 > 0.6
