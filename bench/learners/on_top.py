"""What a search on top of a reward model is worth, offline: the model as its prior, its start and its control variate.

The prior is tried with the binary: a model of the older half of a log, and SeqAdjLS around it on the newer half, against a
model of the whole log. Start and control variate are tried with a softmax policy on the model's kernel features, learned from
80 % of the log by L-BFGS; of three strengths of regularisation the best by the *test* split is taken, which no user can do.
docs/learning.md has the results. Example: `python bench/learners/on_top.py --sets digits,segment`
"""

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import ours
import pyarrow.parquet
import sets
import world
from scipy.optimize import minimize
from scipy.special import softmax

LANDMARKS = 300
STRENGTHS = (1e-5, 1e-4, 1e-3)


def kernel_features(known):
    """The contexts, and a Gaussian kernel at random landmarks, whitened."""
    rows = np.random.default_rng(0).choice(len(known), min(LANDMARKS, len(known)), replace=False)
    landmarks = known[rows]
    squares = ((landmarks[:, None] - landmarks[None]) ** 2).sum(2)
    width = 0.25 * np.median(squares[squares > 0])
    values, vectors = np.linalg.eigh(np.exp(-squares / (2 * width)) + 1e-6 * np.eye(len(landmarks)))

    def apply(x):
        distance = (x**2).sum(1)[:, None] + (landmarks**2).sum(1) - 2 * x @ landmarks.T
        return np.hstack([x, np.exp(-distance / (2 * width)) @ (vectors / np.sqrt(values))])

    return apply


def reward_model(phi, action, reward, actions, plain):
    """Ridge regressions per action, with one precision for the contexts and one for the kernel, by evidence on a grid."""
    offset, count, best = reward.mean(), len(reward), None
    grams = [phi[action == a].T @ phi[action == a] for a in range(actions)]
    products = [phi[action == a].T @ (reward[action == a] - offset) for a in range(actions)]
    total = ((reward - offset) ** 2).sum()
    square = sum(np.diag(gram) for gram in grams) / count
    usual = np.concatenate([np.full(plain, square[:plain].sum()), np.full(phi.shape[1] - plain, square[plain:].sum())])
    for contexts in (1.0, 4.0, 16.0, 64.0):
        for kernel in (0.25, 1.0, 4.0, 16.0):
            d = usual * np.concatenate([np.full(plain, contexts), np.full(phi.shape[1] - plain, kernel)])
            means, determinant, left = [], 0.0, total
            for gram, b in zip(grams, products):
                means.append(np.linalg.solve(gram + np.diag(d), b))
                determinant += np.linalg.slogdet(gram + np.diag(d))[1] - np.log(d).sum()
                left -= b @ means[-1]
            evidence = -0.5 * (determinant + count * np.log(max(left, 1e-9) / count))
            if best is None or evidence > best[0]:
                best = (evidence, np.array(means).T)
    return best[1], offset


def searched(data, log):
    """Greedy accuracy of the model, and of policies that importance weighting learns alone, from it, and around it."""
    n = len(log[0]) * 4 // 5
    x, action, propensity, reward = (column[:n] for column in log)
    apply = kernel_features(x.astype(float))
    phi, test, rows = apply(x.astype(float)), apply(data.test.astype(float)), np.arange(n)
    model, offset = reward_model(phi, action, reward, data.classes, x.shape[1])
    predicted = np.clip(offset + phi @ model, 0, 1)
    accuracy = lambda weights: float(((test @ weights).argmax(1) == data.test_label).mean())

    def learn(variate, start):
        """`variate` is a share of the predictions, `start` the means at which the search starts and is held."""
        value = variate * predicted
        value[rows, action] += (reward - value[rows, action]) / propensity

        def loss(flat, strength):
            weights = flat.reshape(start.shape)
            p = softmax(phi @ weights, axis=1)
            slope = phi.T @ (p * (value - (p * value).sum(1, keepdims=True))) / n
            away = weights - start
            return -(p * value).sum() / n + 0.5 * strength * (away**2).sum(), (strength * away - slope).ravel()

        def at(strength):
            found = minimize(loss, start.ravel(), (strength,), jac=True, method="L-BFGS-B", options={"maxiter": 60})
            return accuracy(found.x.reshape(start.shape))

        return max(at(strength) for strength in STRENGTHS)

    nothing, there = np.zeros_like(model), 20 * model
    return {
        "model": accuracy(model),
        "search": learn(0.0, nothing),
        "search with the model as control variate": learn(1.0, nothing),
        "search from the model": learn(0.0, there),
        "search from the model, which is control variate too": learn(1.0, there),
    }


def around(surefoot, place, log):
    """The values of the model of the older half, of SeqAdjLS around it on the newer half, and of the model of all."""
    half, common = (
        len(log[0]) // 2,
        ["--actions", place.actions, "--seed", place.seed, "--threads", 1, "--json", "--quiet"],
    )
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        ours.write(folder / "test.parquet", place.data.test, {"event_id": np.arange(len(place.data.test)).astype(str)})

        def value(name, rows, *flags):
            x, action, propensity, reward = (column[rows] for column in log)
            columns = {"action": action, "pscore": propensity, "reward": reward}
            ours.write(folder / "log.parquet", x, columns)
            policy, scores = folder / f"{name}.safetensors", folder / "scores.parquet"
            surefoot.run("learn", folder / "log.parquet", *common, "--out", policy, *flags)
            surefoot.run("score", policy, folder / "test.parquet", "--probabilities", "--out", scores)
            p = pyarrow.parquet.read_table(scores).column("probabilities").combine_chunks()
            return place.truth(p.flatten().to_numpy().reshape(-1, place.actions))[0]

        half_model = value("half", slice(0, half), "--members", "kernel", "--held-back", 0.1)
        prior = ["--prior", folder / "half.safetensors", "--prior-is-older", "--algorithm", "seq-adj-ls"]
        return {
            "model of the older half": half_model,
            "search around it on the newer half": value("search", slice(half, None), *prior),
            "model of all": value("all", slice(None), "--members", "kernel"),
        }


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--data", type=Path, default=Path(os.environ.get("SUREFOOT_DATA", sets.ROOT / "data")))
    flags.add_argument("--surefoot", type=Path, default=sets.ROOT / "target/release/surefoot", help="the binary")
    flags.add_argument("--sets", default="digits,satimage,segment")
    options = flags.parse_args()
    surefoot, sums = ours.Surefoot(options.surefoot), {}
    for name in options.sets.split(","):
        for seed in (1, 2, 3):
            data = sets.load(name, seed, options.data, surefoot.binary)
            weights = sets.first_weights(surefoot.binary, data.path, seed)
            place = world.World(data, "offline", seed, weights, 0)
            log = world.log_of(place)
            for what, found in (around(surefoot, place, log) | searched(data, log)).items():
                sums.setdefault(what, []).append(found)
                print(f"{name}, seed {seed}, {what}: {found:.3f}", flush=True)
    for what, found in sums.items():
        print(f"mean of {len(found)}, {what}: {np.mean(found):.3f}")


if __name__ == "__main__":
    main()
