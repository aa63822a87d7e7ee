"""What is drawn: the data of lines, and what is written beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402

import surefoot  # noqa: E402
from surefoot import plot  # noqa: E402


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def gated() -> surefoot.Simulation:
    world = surefoot.Environment.synthetic(seed=1)
    learner = surefoot.SeqAdjLS(lam=0.4, gate="improvement")
    return surefoot.simulate(world, learner, rounds=5, interactions=4000, alpha=0.0, certify=True)


@pytest.fixture(scope="module")
def logs() -> surefoot.Logs:
    world = surefoot.Environment.synthetic(seed=1)
    return world.collect(world.first_policy(alpha=1.0), 3000)


def lines(ax: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in ax.get_lines()}


def written(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def legend_covers_nothing(ax: Any) -> bool:
    ax.figure.canvas.draw()
    return not ax.get_legend().get_window_extent().overlaps(ax.get_window_extent().padded(-1))


def test_risk_of_a_simulation(gated: surefoot.Simulation) -> None:
    ax = plot.risk(gated)
    drawn = lines(ax)
    assert written(ax) == ["best possible", "true", "certified: at least", "logged, when it ran", "promoted"]
    np.testing.assert_array_equal(drawn["true"].get_xdata(), np.arange(6))
    np.testing.assert_array_equal(drawn["true"].get_ydata(), gated.rewards)
    certified = [np.nan if value is None else value for value in gated.certified]
    np.testing.assert_array_equal(drawn["certified: at least"].get_xdata(), np.arange(1, 6))
    np.testing.assert_array_equal(drawn["certified: at least"].get_ydata(), certified)
    # What policy r - 1 brought when it ran, in round r, stands over r - 1.
    np.testing.assert_array_equal(drawn["logged, when it ran"].get_xdata(), np.arange(5))
    means = [logs.reward.mean() for logs in gated.logs]
    np.testing.assert_allclose(drawn["logged, when it ran"].get_ydata(), means)
    assert set(drawn["best possible"].get_ydata()) == {gated.best_reward}
    assert drawn["best possible"].get_linestyle() == "--"
    promoted = [i for i, report in enumerate(gated.rounds, 1) if report["promoted"]]
    assert 0 < len(promoted) < 5
    assert drawn["promoted"].get_xdata().tolist() == promoted
    np.testing.assert_array_equal(drawn["promoted"].get_ydata(), np.asarray(gated.rewards)[promoted])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rounds learned from", "reward of the policy")


def test_risk_of_an_estimator(world: surefoot.Environment) -> None:
    learner = surefoot.SeqAdjLS(prior=world.first_policy(alpha=0.0), lam=0.4)
    for round in range(3):
        running = learner.policy_ if round else learner.prior
        learner.partial_fit(world.collect(running, 800, round=round, start=800 * round))
    for run in (learner, learner.history_):
        ax = plot.risk(run)
        # Nobody knows the truth, and no gate decides.
        assert written(ax) == ["certified: at least", "logged, when it ran"]
        logged = [report["mean_reward"] for report in learner.history_]
        np.testing.assert_array_equal(lines(ax)["logged, when it ran"].get_ydata(), logged)
        assert lines(ax)["certified: at least"].get_ydata()[-1] == learner.certificate_.at_least


def test_what_is_not_proven_is_not_drawn() -> None:
    run = surefoot.simulate(surefoot.Environment.synthetic(seed=1), surefoot.SeqLS(lam=0.4), rounds=2, interactions=500)
    assert written(plot.risk(run)) == ["best possible", "true", "logged, when it ran"]


def test_lines_can_be_told_apart_without_colour(gated: surefoot.Simulation) -> None:
    ax = plot.risk(gated)
    looks = {(line.get_linestyle(), line.get_marker()) for line in ax.get_lines()}
    assert len(looks) == len(ax.get_lines())


def test_weights(logs: surefoot.Logs) -> None:
    policy = surefoot.Environment.synthetic(seed=1).first_policy(alpha=4.0)
    ax = plot.weights(logs, policy)
    w = policy.propensity(logs.X, logs.action) / logs.pscore
    drawn = lines(ax)
    x, y = drawn["records"].get_data()
    for weight, share in zip(x[::500], y[::500]):
        assert share == pytest.approx(np.mean(w >= weight))
    assert ax.get_xscale() == ax.get_yscale() == "log"
    found = surefoot.evaluate(logs, policy, estimators=["ips"]).weights
    assert ax.get_title() == f"effective sample size {found.effective:,.0f} of 3,000"
    assert drawn[f"largest: {found.largest:.3g}"].get_xdata().tolist() == [pytest.approx(found.largest)]
    assert ax.get_xlabel() == "importance weight w"


def test_weights_of_all_that_can_be_evaluated(logs: surefoot.Logs) -> None:
    policy = surefoot.Environment.synthetic(seed=1).first_policy(alpha=2.0)
    p = policy.predict_proba(logs.X)
    taken = p[np.arange(3000), logs.action]
    expected = np.sort(taken / logs.pscore)[::-1]
    for one in (policy, policy.predict_proba, p, p[:, :, None], taken):
        np.testing.assert_allclose(lines(plot.weights(logs, one))["records"].get_xdata(), expected, rtol=1e-6)
    assert plot.weights(logs, "logged").get_title() == "effective sample size 3,000 of 3,000"


def test_weights_that_are_zero_are_told(logs: surefoot.Logs) -> None:
    always = np.zeros((3000, 5))
    always[:, 2] = 1.0
    ax = plot.weights(logs, always)
    taken = np.mean(logs.action == 2)
    assert len(lines(ax)["records"].get_xdata()) == round(3000 * taken)
    assert f"weight 0: {100 * (1 - taken):.1f} %" in written(ax)
    with pytest.raises(surefoot.SettingError, match="takes none of them"):
        plot.weights(logs, np.zeros(3000))
    with pytest.raises(surefoot.SettingError, match=r"\(3000, 5\), but is \(3000, 4\)"):
        plot.weights(logs, np.full((3000, 4), 0.25))


def intervals(ax: Any) -> tuple[Any, Any, Any]:
    """The points of a picture of propensities, and the ends of their intervals."""
    (bars,) = ax.containers
    x, y = bars.lines[0].get_data()
    ends = np.array([segment[:, 1] for segment in bars.lines[2][0].get_segments()])
    return x, y, ends


def test_reliability(logs: surefoot.Logs) -> None:
    deployed = surefoot.Environment.synthetic(seed=1).first_policy(alpha=1.0)
    p = deployed.predict_proba(logs.X)
    ax = plot.reliability(logs, deployed, bins=8)
    x, y, ends = intervals(ax)
    assert len(x) == 8
    # On the diagonal, and not by width: the intervals are narrow.
    assert np.mean((ends[:, 0] <= x) & (x <= ends[:, 1])) >= 7 / 8
    assert (ends[:, 1] - ends[:, 0]).max() < 0.12
    assert x.min() < 0.15 and x.max() > 0.4
    same = intervals(plot.reliability(logs, p, bins=8))
    np.testing.assert_allclose(same[0], x)
    assert "right" in lines(ax)

    sharper = p**2 / (p**2).sum(axis=1, keepdims=True)
    x, y, ends = intervals(plot.reliability(logs, sharper, bins=8))
    assert np.mean((ends[:, 0] <= x) & (x <= ends[:, 1])) <= 3 / 8, "claims that are wrong are off the diagonal"
    assert y[0] > x[0] and y[-1] < x[-1]


def test_reliability_counts_what_was_taken() -> None:
    action = np.array([0, 0, 0, 1, 1, 1, 1, 0])
    claimed = np.tile([0.25, 0.75], (8, 1))
    logs = surefoot.Logs(np.ones((8, 1)), action, np.where(action == 0, 0.25, 0.75), np.ones(8))
    x, y, ends = intervals(plot.reliability(logs, claimed, bins=[0.0, 0.5, 1.0]))
    assert x.tolist() == [0.25, 0.75] and y.tolist() == [0.5, 0.5]
    # Wilson's interval of 4 of 8.
    np.testing.assert_allclose(ends[0], [0.2152, 0.7848], atol=5e-4)
    # Two actions need no policy: what is not logged is the rest.
    x, y, _ = intervals(plot.reliability(logs, bins=[0.0, 0.5, 1.0]))
    assert x.tolist() == [0.25, 0.75] and y.tolist() == [0.5, 0.5]


def test_bins_expect_equally_many_decisions(logs: surefoot.Logs) -> None:
    deployed = surefoot.Environment.synthetic(seed=1).first_policy(alpha=1.0)
    p = deployed.predict_proba(logs.X).ravel()
    edges = plot._edges(p, 6)
    mass, _ = np.histogram(p, edges, weights=p)
    np.testing.assert_allclose(mass, 500, atol=2)
    assert len(intervals(plot.reliability(logs, "uniform"))[0]) == 1


def test_reliability_refuses(logs: surefoot.Logs) -> None:
    with pytest.raises(surefoot.SettingError, match="probability of one action of 5 only"):
        plot.reliability(logs)
    for bins in (0, 2.5, [0.5], [0.5, 0.2]):
        with pytest.raises(surefoot.SettingError, match="bins should be"):
            plot.reliability(logs, "uniform", bins=bins)


def test_evaluation_of_several(logs: surefoot.Logs) -> None:
    target = surefoot.Environment.synthetic(seed=1).first_policy(alpha=3.0)
    found = surefoot.evaluate(logs, {"target": target, "uniform": "uniform"}, estimators=["ips", "snips", "ix:0.01"])
    ax = plot.evaluation(found)
    rows = [label.get_text() for label in ax.get_yticklabels()]
    assert rows == [e.estimator for e in found["target"].estimates] + ["proven, at any time"]
    assert written(ax) == ["target", "uniform"]
    drawn = lines(ax)
    for name in found:
        np.testing.assert_array_equal(drawn[name].get_xdata(), [e.value for e in found[name].estimates])
        assert np.round(drawn[name].get_ydata()).tolist() == [0, 1, 2]
    assert drawn["target"].get_marker() != drawn["uniform"].get_marker()
    segments = [tuple(line.get_xdata()) for line in ax.get_lines()]
    for one in found.values():
        for interval in (one.anytime, *(e.bootstrap for e in one.estimates)):
            assert interval in segments
            assert ax.get_xlim()[0] < interval[0] and interval[1] < ax.get_xlim()[1]
        assert one["implicit"].bernstein in segments
    assert "95 %" in ax.get_xlabel()


def test_intervals_that_go_on_have_an_arrow(logs: surefoot.Logs) -> None:
    found = surefoot.evaluate(logs[:200], "uniform", estimators=["ips", "ix:0.001"])
    ax = plot.evaluation(found)
    left, right = ax.get_xlim()
    lower, upper = found["implicit"].bernstein
    assert lower < left and upper > right
    assert {line.get_marker() for line in ax.get_lines()} >= {"<", ">"}
    assert ax.get_legend() is None, "one policy without a name needs none"


@pytest.mark.parametrize("found", [{}, "found", {"a": 1}])
def test_evaluation_refuses(found: Any) -> None:
    with pytest.raises(surefoot.SettingError, match="found should be an Evaluation, or a dictionary of them"):
        plot.evaluation(found)


def test_risk_refuses() -> None:
    with pytest.raises(surefoot.SettingError, match=r"run should be a Simulation.*but is int"):
        plot.risk(3)
    with pytest.raises(surefoot.SettingError, match="at least 1 round"):
        plot.risk(surefoot.History())


def test_axes_are_taken_and_given_back(gated: surefoot.Simulation, logs: surefoot.Logs) -> None:
    found = surefoot.evaluate(logs, {"a": "uniform"}, estimators=["ips"])
    drawings = (
        lambda ax: plot.risk(gated, ax),
        lambda ax: plot.weights(logs, "uniform", ax),
        lambda ax: plot.reliability(logs, "uniform", ax),
        lambda ax: plot.evaluation(found, ax),
    )
    figure, axes = pyplot.subplots(2, 2, layout="constrained")
    for draw, ax in zip(drawings, axes.flat):
        assert draw(ax) is ax
        assert ax.get_xlabel()
    assert pyplot.get_fignums() == [figure.number]
    for draw in drawings:
        assert legend_covers_nothing(draw(None))
