"""Gymnasium: a world of Surefoot as an environment that other people's agents can act in.

A world has no state: interaction ``t`` has its context and its luck, whatever was done before, and a decision has no
effect on what comes next. So an episode is a single interaction, unless it is asked to be longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot._surefoot import Environment, Policy
from surefoot.errors import refused

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise ImportError("surefoot.gym needs Gymnasium: pip install surefoot[gym]") from error

__all__ = ["BanditEnv"]

#: A world without an end begins, with a seed, somewhere below this.
_FAR = 2**40


def _taking(action: int, n_actions: int) -> Policy:
    """The policy that always takes an action."""
    row = np.zeros(n_actions)
    row[action] = 1.0
    return Policy.own(lambda X: np.broadcast_to(row, (X.shape[0], n_actions)), n_actions)


class BanditEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    r"""A contextual bandit: the observation is a context :math:`x_t`, the reward is that of the action, :math:`r_t(a)`.

    Interaction ``t`` is the same as record ``t`` of ``environment.collect``, context and luck, so that an agent and a
    policy of Surefoot can be compared on the same interactions. ``info["interaction"]`` is ``t``.

    Parameters
    ----------
    environment : Environment
        The world.
    episode_length : int
        Interactions in an episode; by default one, as what an agent does has no effect on the contexts that follow.
        ``terminated`` tells that an episode is over; the observation that comes with it is the context that ``reset``
        gives.
    round : int
        In a world that drifts, the round that the contexts are from.

    Notes
    -----
    ``reset`` goes on with the next interaction, the first being number 0. ``reset(seed=...)`` begins somewhere else, at
    a place that the seed chooses, and ``reset(options={"start": t, "round": r})`` at interaction ``t`` of a round. The
    luck of the world itself is that of the seed it was made with.

    The interactions of a data set end: ``truncated`` tells that each of them has been seen once since the beginning was
    chosen (past the last comes the first). After that they begin again, with the same luck.

    >>> import surefoot
    >>> from surefoot.gym import BanditEnv
    >>> world = surefoot.Environment.synthetic(seed=1)
    >>> env = BanditEnv(world, episode_length=3)
    >>> x, info = env.reset()
    >>> x.shape, info
    ((10,), {'interaction': 0, 'round': 0})
    >>> rewards, terminated = [], False
    >>> while not terminated:
    ...     x, reward, terminated, truncated, info = env.step(2)
    ...     rewards.append(reward)
    >>> logs = world.collect(surefoot.Policy.own(lambda X: [[0, 0, 1, 0, 0]] * len(X), 5), 3)
    >>> rewards == logs.reward.tolist()
    True
    """

    def __init__(self, environment: Environment, *, episode_length: int = 1, round: int = 0) -> None:
        if int(episode_length) != episode_length or episode_length < 1:
            raise refused("episode_length", "a whole number from 1 on", episode_length)
        self.environment = environment
        self.episode_length = int(episode_length)
        n_actions = environment.n_actions
        self.observation_space = spaces.Box(-np.inf, np.inf, (environment.n_features,), np.float32)
        self.action_space = spaces.Discrete(n_actions)
        self._looking = Policy.uniform(n_actions)
        self._actions: dict[int, Policy] = {}
        #: How many interactions there are, if they end.
        self._end = environment.interactions if environment.kind == "labels" else None
        self._round = _whole(round, "round", None)
        self._now = self._seen = 0
        self._left = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """The context of the next interaction, or of another one: see the class."""
        super().reset(seed=seed)
        options = dict(options or {})
        start = options.pop("start", None)
        round = options.pop("round", self._round)
        if options:
            raise refused("the options of reset", "start and round", ", ".join(map(str, options)))
        self._round = _whole(round, "round", None)
        if start is None and seed is not None:
            start = int(self.np_random.integers(self._end or _FAR))
        if start is not None:
            self._now, self._seen = _whole(start, "start", self._end), 0
        elif self._seen == self._end:
            self._seen = 0
        self._left = self.episode_length
        return self._context(), self._info(self._now)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """The next context, the reward of the action in the current one, ``terminated``, ``truncated`` and ``info``."""
        if self._left == 0:
            raise gymnasium.error.ResetNeeded("the episode is over, or has not begun: call reset")
        if not self.action_space.contains(action):
            raise refused("action", f"a whole number from 0 to {self.environment.n_actions - 1}", action)
        taken = int(action)
        if taken not in self._actions:
            self._actions[taken] = _taking(taken, self.environment.n_actions)
        at = self._now
        logs = self.environment.collect(self._actions[taken], 1, round=self._round, start=at)
        self._seen += 1
        self._now = (at + 1) % self._end if self._end else at + 1
        self._left -= 1
        terminated, truncated = self._left == 0, self._seen == self._end
        self._left *= not truncated
        return self._context(), float(logs.reward[0]), terminated, truncated, self._info(at)

    def _context(self) -> NDArray[np.float32]:
        X: Any = self.environment.collect(self._looking, 1, round=self._round, start=self._now).X
        row = X.toarray()[0] if hasattr(X, "toarray") else X[0]
        return np.array(row, dtype=np.float32)

    def _info(self, interaction: int) -> dict[str, Any]:
        return {"interaction": interaction, "round": self._round}


def _whole(value: Any, name: str, below: int | None) -> int:
    """A whole number from 0 on."""
    if int(value) != value or value < 0 or (below is not None and value >= below):
        allowed = "a whole number from 0 on" if below is None else f"a whole number from 0 to {below - 1}"
        raise refused(name, allowed, value)
    return int(value)
