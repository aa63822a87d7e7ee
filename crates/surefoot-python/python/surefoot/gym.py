"""Gymnasium: a Surefoot environment as a Gymnasium environment.

It has no state: the context and the random numbers of interaction ``t`` do not depend on earlier actions, and an action
has no effect on later interactions. So an episode is a single interaction by default.
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
    raise ImportError("surefoot.gym needs Gymnasium: pip install gymnasium") from error

__all__ = ["BanditEnv"]

#: In an environment without an end, a seed chooses a start below this.
_FAR = 2**40


def _taking(action: int, n_actions: int) -> Policy:
    """The policy that always takes this action."""
    row = np.zeros(n_actions)
    row[action] = 1.0
    return Policy.custom(lambda X: np.broadcast_to(row, (X.shape[0], n_actions)), n_actions)


class BanditEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    r"""A contextual bandit: the observation is a context :math:`x_t`, the reward is that of the action, :math:`r_t(a)`.

    Interaction ``t`` has the same context and random numbers as record ``t`` of ``environment.collect``, so an agent
    and a policy of Surefoot can be compared on the same interactions. ``info["interaction"]`` is ``t``.

    Parameters
    ----------
    environment : Environment
        The Surefoot environment.
    episode_length : int
        The number of interactions per episode; by default one, since actions have no effect on later contexts.
        ``terminated`` marks the end of an episode. The observation that comes with it is the context that the next
        ``reset`` returns.
    round : int
        In an environment that drifts, the round of the contexts.

    Notes
    -----
    ``reset`` continues with the next interaction, starting with number 0. ``reset(seed=...)`` starts at an interaction
    that the seed chooses, and ``reset(options={"start": t, "round": r})`` at interaction ``t`` of round ``r``. The
    random numbers of the rewards depend on the seed of the Surefoot environment.

    The interactions of a data set are finite: ``truncated`` says that each has been seen once since the start was
    chosen (the first follows the last). After that they repeat, with the same random numbers.

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
    >>> logs = world.collect(surefoot.Policy.custom(lambda X: [[0, 0, 1, 0, 0]] * len(X), 5), 3)
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
        #: The number of interactions, if it is finite.
        self._end = environment.interactions if environment.kind == "labels" else None
        self._round = _whole(round, "round", None)
        self._now = self._seen = 0
        self._left = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """The context of the next interaction, or of the one that ``seed`` or ``options`` choose: see the class."""
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
    """Checks that a value is a whole number from 0 on."""
    if int(value) != value or value < 0 or (below is not None and value >= below):
        allowed = "a whole number from 0 on" if below is None else f"a whole number from 0 to {below - 1}"
        raise refused(name, allowed, value)
    return int(value)
