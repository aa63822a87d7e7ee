"""The paper's first figure, scaled down: true risk per round of four learners, on the digits that ship with Surefoot.

As in the paper: labelled data as a bandit with noise 0.2, ten rounds, a first policy with alpha 0.2, rounds of doubling
size for SCRM and of equal size for the others. The risk is -E pi(y|x), from -1 (always right) to 0.

Unlike the paper: 3,632 interactions instead of MNIST's 57,000, and therefore batches of 128, a learning rate of 0.01
that decays, and lambda 0.4 (in the paper's setting: 1,024, 0.001 and 0.1). `surefoot paper figure1` runs it at full
size; paper/README.md has the results.

    python paper_figure.py [folder for the plot] [number of seeds]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib import pyplot

import surefoot

ROUNDS = 10


def learners(seed: int) -> dict[str, object]:
    paper = {"posterior": "isotropic", "exploration": 0.0, "lam": 0.4, "seed": seed}
    return {
        "SeqAdjLS": surefoot.SeqAdjLS(**paper),
        "SeqLS": surefoot.SeqLS(**paper),
        "SCRM": surefoot.SCRM(**paper),
        "BatchLS": surefoot.BatchLS(**paper),
    }


def main(folder: Path, seeds: int) -> None:
    risks: dict[str, list[list[float]]] = {}
    for seed in range(1, seeds + 1):
        world = surefoot.Environment.dataset("digits", seed=seed)
        for name, learner in learners(seed).items():
            run = surefoot.simulate(world, learner, rounds=ROUNDS, alpha=0.2)
            # The accuracy is E pi(y|x).
            right = [run.first_accuracy, *(report["accuracy"] for report in run.rounds)]
            risks.setdefault(name, []).append([-share for share in right])

    figure, ax = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    marks = {"SeqAdjLS": "o-", "SeqLS": "s--", "SCRM": "^-.", "BatchLS": "x:"}
    rounds = np.arange(ROUNDS + 1)
    shown = (0, 1, 2, 5, 10)
    print(f"risk on digits, mean ± standard deviation over {seeds} seeds, by number of rounds\n")
    print(f"{'':10}" + "".join(f"{round:>18}" for round in shown))
    for name, runs in risks.items():
        mean, deviation = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1 if seeds > 1 else 0)
        print(f"{name:10}" + "".join(f"{mean[r]:>9.3f} ± {deviation[r]:.3f} " for r in shown))
        (line,) = ax.plot(rounds, mean, marks[name], label=name)
        ax.fill_between(rounds, mean - deviation, mean + deviation, color=line.get_color(), alpha=0.2, linewidth=0)
    ax.set_xlabel("round")
    ax.set_ylabel("true risk, lower is better")
    ax.set_title(f"Digits, alpha 0.2; bands: standard deviation over {seeds} seeds")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#DDDDDD")
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    figure.savefig(folder / "paper_figure.png", dpi=150)
    print(f"\nplot: {folder / 'paper_figure.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."), int(sys.argv[2]) if len(sys.argv) > 2 else 6)
