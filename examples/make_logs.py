"""Writes logs.csv beside this file: 6,000 decisions of a made-up shop, the same in every run.

A visitor sees a coupon, a banner or nothing, and buys or does not. The first 3,000 decisions are drawn uniformly (v1).
The others come from a policy that depends on the country and gives every action a positive probability (v2). The
columns pi_* are the probabilities of a candidate policy that also depends on the device;
`surefoot evaluate logs.csv --policy columns:pi_` evaluates it.
"""

import csv
import pathlib
import random

from shop import ACTIONS, buys, visitor


def preferring(best: str, much: float) -> list[float]:
    return [much if action == best else (1 - much) / 2 for action in ACTIONS]


def main() -> None:
    chance = random.Random(7)
    with open(pathlib.Path(__file__).parent / "logs.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        pi = [f"pi_{action}" for action in ACTIONS]
        features = ["country", "device", "age"]
        writer.writerow(["event_id", *features, "action", "pscore", "reward", "policy_version", *pi])
        for i in range(6000):
            country, device, age = visitor(chance)
            version = "v1" if i < 3000 else "v2"
            second = preferring({"NO": "coupon", "SE": "banner", "DK": "coupon"}[country], 0.6)
            logged = [1 / 3] * 3 if version == "v1" else second
            action = chance.choices(range(3), logged)[0]
            reward = int(chance.random() < buys(country, device, age, ACTIONS[action]))
            best = {"NO": "coupon" if device == "phone" else "banner", "SE": "banner", "DK": "coupon"}[country]
            shown = "" if chance.random() < 0.03 else age
            candidate = preferring(best, 0.8)
            row = [f"e{i:05}", country, device, shown, ACTIONS[action], logged[action], reward, version, *candidate]
            writer.writerow([round(x, 12) if isinstance(x, float) else x for x in row])


if __name__ == "__main__":
    main()
