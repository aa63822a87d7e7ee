"""The picture of the page: the portfolio minus the best rival, per set and start."""

import matplotlib
import versus

matplotlib.use("agg")
import matplotlib.pyplot as plt

# Of Okabe and Ito's colours, which colour-blind readers can distinguish.
WIN, LOSS = "#0072B2", "#D55E00"
TITLES = {"value": "value of the final policy", "reward": "mean reward while learning", "certified": "certified value"}


def draw(runs, title, path):
    """Writes `path` as SVG and as PNG. Bars are means over the seeds, and dots are seeds."""
    plt.rcParams.update({"svg.hashsalt": "surefoot", "font.size": 9})
    measures = {measure: versus.duels(runs, measure) for measure in versus.MEASURES}
    rows = max(map(len, measures.values()))
    figure, panels = plt.subplots(1, len(measures), figsize=(13, 1.3 + 0.26 * rows), layout="constrained")
    for panel, (measure, duels) in zip(panels, measures.items()):
        for row, duel in enumerate(duels):
            color = WIN if duel.difference > 0 else LOSS
            panel.barh(row, duel.difference, color=color, height=0.7)
            panel.plot(duel.differences, [row] * len(duel.differences), "o", color="black", ms=2.5, alpha=0.6)
        panel.set_yticks(range(len(duels)), [f"{title(duel.set)}, {duel.start}" for duel in duels])
        panel.set_ylim(rows - 0.5, -0.5)
        panel.axvline(0, color="black", lw=0.8)
        panel.grid(axis="x", alpha=0.3)
        panel.locator_params(axis="x", nbins=5)
        panel.set_axisbelow(True)
        panel.set_title(TITLES[measure])
    figure.supxlabel(
        "Surefoot's portfolio minus the best rival, which is another one in every row (blue: Surefoot is ahead)",
        fontsize=10,
    )
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=120)
    plt.close(figure)
