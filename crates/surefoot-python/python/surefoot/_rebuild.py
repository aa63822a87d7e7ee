"""Functions that rebuild objects from pickles."""

from __future__ import annotations

from typing import Any

from surefoot._surefoot import Certificate, Features, Policy


def raw(n_features: int, intercept: bool) -> Features:
    return Features.raw(n_features, intercept=intercept)


def fourier(
    n_features: int, count: int, bandwidth: float, seed: int, intercept: bool, beside: bool = False
) -> Features:
    features = Features.fourier(n_features, count, bandwidth, seed=seed, intercept=intercept)
    return features._with_contexts() if beside else features


def beside_softmax(features: Features, weights: Any, constants: Any) -> Features:
    return features._with_softmax(weights, constants)


def uniform(n_actions: int, inputs: str | None = None) -> Policy:
    policy = Policy.uniform(n_actions)
    return policy if inputs is None else Policy._with_inputs(policy, inputs)


def gaussian(
    mean: Any, scale: Any, features: Features, exploration: float, basis: Any, inputs: str | None, joint: Any = None
) -> Policy:
    if joint is None:
        policy = Policy.gaussian(mean, scale, features=features, exploration=exploration, basis=basis)
    else:
        policy = Policy._over_candidates(mean, scale, features, exploration, basis, joint)
    return policy if inputs is None else Policy._with_inputs(policy, inputs)


def softmax(weights: Any, alpha: float, features: Features, inputs: str | None) -> Policy:
    policy = Policy.softmax(weights, alpha=alpha, features=features)
    return policy if inputs is None else Policy._with_inputs(policy, inputs)


def certificate(text: str, reward_range: tuple[float, float]) -> Certificate:
    return Certificate.from_json(text, reward_range=reward_range)
