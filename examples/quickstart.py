"""The loop by hand, in a made-up world: deploy, log, learn, and certify after every round.

A page has three banners. Which banner a visitor clicks depends on the visitor. Only the shown banner can be clicked, so
the logs contain the response to that banner only. The script knows the true click rates, but the learner does not.

    python quickstart.py [folder for the plot]
"""

import sys
from pathlib import Path

import numpy as np

import surefoot
from surefoot import plot

ROUNDS, VISITORS, BANNERS = 8, 1000, 3


def visitors(chance: np.random.Generator, n: int) -> np.ndarray:
    """The contexts of n visitors: four numbers each."""
    return chance.normal(size=(n, 4)).astype(np.float32)


def click_rates(X: np.ndarray) -> np.ndarray:
    """The probability that each visitor clicks each banner."""
    liking = np.stack([X[:, 0], X[:, 1], -X[:, 0] - X[:, 1]], axis=1)
    return np.where(liking == liking.max(axis=1, keepdims=True), 0.7, 0.2)


def main(folder: Path) -> None:
    chance = np.random.default_rng(1)
    everybody = visitors(chance, 20_000)
    truth = lambda policy: float((policy.predict_proba(everybody) * click_rates(everybody)).sum(axis=1).mean())

    # The first policy is uniform. Every later policy draws the banner uniformly in 2 % of all cases.
    first = surefoot.Policy.standard(surefoot.Features.raw(4, intercept=True), BANNERS, exploration=0.02)
    learner = surefoot.SeqAdjLS(prior=first, seed=1)
    true = [truth(first)]
    print("round  logged  certified    true")
    for round in range(1, ROUNDS + 1):
        X = visitors(chance, VISITORS)
        action, pscore = first.sample(X, seed=1) if round == 1 else learner.sample(X)
        reward = (chance.random(VISITORS) < click_rates(X)[np.arange(VISITORS), action]).astype(float)
        learner.partial_fit(X, action, pscore, reward)
        true.append(truth(learner.policy_))
        print(f"{round:5}  {reward.mean():6.3f}  {learner.certificate_.at_least:9.3f}  {true[-1]:6.3f}")
    print(f"\n{learner.certificate_}")
    print(f"best possible {click_rates(everybody).max(axis=1).mean():.3f}")

    ax = plot.risk(learner)
    ax.plot(range(ROUNDS + 1), true, "o-", color="#0072B2", label="true (unknown to the learner)")
    ax.legend(loc="upper left", frameon=False)
    ax.set_ylim(top=0.85)
    ax.set_title("Each policy of the loop: clicks per visitor")
    ax.figure.savefig(folder / "quickstart.png", dpi=150)
    print(f"plot: {folder / 'quickstart.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
