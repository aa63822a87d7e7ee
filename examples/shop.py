"""The made-up shop behind logs.csv: who visits it, and who buys.

It stands for the world outside, so that the tutorial can close the loop:

    python shop.py visitors 2000 > visitors.csv       # people come, whom a policy decides on
    surefoot score next.safetensors visitors.csv --seed 7 --out decisions.csv
    python shop.py outcomes visitors.csv decisions.csv > newer.csv    # what they did: a log
"""

import argparse
import csv
import random
import sys

ACTIONS = ["banner", "coupon", "nothing"]
SHARES = {"NO": 0.4, "SE": 0.4, "DK": 0.2}


def visitor(chance: random.Random) -> tuple[str, str, int]:
    """Country, device and age of a visitor."""
    country = chance.choices(list(SHARES), SHARES.values())[0]
    return country, chance.choice(["phone", "desktop", "tablet"]), chance.randint(18, 75)


def buys(country: str, device: str, age: float, action: str) -> float:
    """The probability that a visitor buys."""
    if country == "NO":
        best = "coupon" if device == "phone" else "banner"
    elif country == "SE":
        best = "banner"
    else:
        best = "nothing" if age > 45 else "coupon"
    return 0.55 if action == best else 0.2


def visitors(count: int, seed: int) -> None:
    """Writes a table of visitors."""
    chance = random.Random(seed)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["event_id", "country", "device", "age"])
    for i in range(count):
        writer.writerow([f"s{seed}-{i:05}", *visitor(chance)])


def outcomes(people: str, decisions: str, seed: int) -> None:
    """Writes the log of the decisions: who saw what with which probability, and who bought."""
    chance = random.Random(seed)
    with open(people) as file:
        seen = {row["event_id"]: row for row in csv.DictReader(file)}
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["event_id", "country", "device", "age", "action", "pscore", "reward", "policy_version"])
    with open(decisions) as file:
        for row in csv.DictReader(file):
            who = seen[row["event_id"]]
            context = [who["country"], who["device"], who["age"]]
            reward = int(chance.random() < buys(who["country"], who["device"], float(who["age"]), row["action"]))
            writer.writerow([row["event_id"], *context, row["action"], row["pscore"], reward, row["policy_version"]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    people = commands.add_parser("visitors", help="write visitors")
    people.add_argument("count", type=int)
    people.add_argument("--seed", type=int, default=1)
    bought = commands.add_parser("outcomes", help="write the log of decisions on visitors")
    bought.add_argument("visitors")
    bought.add_argument("decisions")
    bought.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.command == "visitors":
        visitors(given.count, given.seed)
    else:
        outcomes(given.visitors, given.decisions, given.seed)


if __name__ == "__main__":
    main()
