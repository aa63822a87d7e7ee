"""From a table of logged decisions to the next policy: check, evaluate, learn, save, score, load again.

The table is logs.csv beside this file, 6,000 decisions of a made-up shop (written by make_logs.py). Replace it with
your own: any data frame of pandas or polars, or the path of a Parquet, CSV or JSON lines file.

    python own_logs.py [folder for the policy and the plot]
"""

import sys
from pathlib import Path

import pandas

import surefoot
from surefoot import plot


def main(folder: Path) -> None:
    frame = pandas.read_csv(Path(__file__).parent / "logs.csv")

    print("Errors in the logs, and how well they support evaluation:\n")
    candidates = {"candidate": "columns:pi_", "uniform": "uniform", "logged": "logged"}
    report = surefoot.lint(frame, policies={"candidate": "columns:pi_"})
    print(report)
    if not report.ok:
        raise SystemExit("repair the logs first")

    print("\nEstimated values of policies that were fixed before the logs:\n")
    found = surefoot.evaluate(frame, candidates)
    for one in found.values():
        print(one, end="\n\n")

    print("The next policy:\n")
    learned = surefoot.learn(frame, ignore=["pi_*"])
    print(learned)
    file = folder / "next.safetensors"
    learned.save(file)

    print("\nIts decisions on new visitors: log action and pscore together with the reward.\n")
    new = frame[["country", "device", "age"]].sample(5, random_state=1).assign(event_id=[f"n{i}" for i in range(5)])
    decided = surefoot.score(new, learned.policy, seed=7).to_pandas()
    print(decided[["event_id", "action", "pscore"]].to_string(index=False))

    again = surefoot.Policy.load(file)
    same = surefoot.score(new, again, seed=7).to_pandas().equals(decided)
    print(f"\nloaded again from {file}: {'the same decisions' if same else 'OTHER DECISIONS'}")

    ax = plot.evaluation(found)
    ax.set_title("What 6,000 logged decisions say")
    ax.figure.savefig(folder / "own_logs.png", dpi=150)
    print(f"plot: {folder / 'own_logs.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
