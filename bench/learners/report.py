"""The page of results."""

import datetime
import platform
import subprocess
import textwrap
from importlib.metadata import version

import numpy as np
import ours
import regressions
import sets
import thompson
import trees
import versus
import vw
import world

PACKAGES = ["vowpalwabbit", "lightgbm", "scikit-learn", "obp", "numpy"]
BEST, DEFAULT = "best in hindsight", "default"
TITLES = {"shop": "50 actions"}


def page(runs, skipped, options):
    rows = averages(runs)
    parts = [HEAD, wins(runs)]
    for start, about in world.STARTS.items():
        names = [n for n in [*sets.NAMES, "shop"] if any(r["set"] == n and r["start"] == start for r in rows)]
        if not names:
            continue
        parts.append(f"## {start.capitalize()} start\n\n{about}\n\n{matrix(rows, start, names)}")
        for name in names:
            parts.append(f"### {title(name)}, {start}\n\n{details(rows, start, name)}")
    parts.append(f"## Vowpal Wabbit, all variants\n\nValue / reward while learning.\n\n{variants(rows)}")
    parts.append(notes(runs, rows, skipped, options))
    return "\n\n".join(parts) + "\n"


HEAD = """# Surefoot's learners against rivals

Written by `make bench-learners`. [bench/README.md](../README.md#learners) describes the protocol and the rivals.

*Value* is the probability of the right label under the final policy, `E pi(y|x)` on the test split. *Greedy* is the
accuracy of its most probable action. *Reward* is the mean reward while learning; 0.8 is the best possible, and 0.2 is
what wrong guesses bring. *Certified* is a proven lower bound on the value, with confidence 95 %. A *violation* is a
certificate above the value. *CPU* is in seconds of one core. *MB* is peak memory: the whole process of Surefoot, with the
records and the evaluation; of rivals, what deciding and learning adds to a process that has the libraries and the records
already. Numbers are means over the seeds."""


def wins(runs):
    """The portfolio against the best rival, losses first."""
    lines = ["| measure | set, start | Surefoot | best rival | difference | seeds won | rival |", "| --- " * 7 + "|"]
    counts = []
    for measure in versus.MEASURES:
        duels = versus.duels(runs, measure)
        ahead = sum(duel.difference > 0 for duel in duels)
        counts.append(f"{measure} {ahead} of {len(duels)}")
        for duel in duels:
            cells = [measure, f"{title(duel.set)}, {duel.start}", number(duel.ours.mean()), number(duel.theirs.mean())]
            cells += [strong(duel.difference, duel.difference <= 0, "+.3f")]
            cells += [f"{duel.seeds_won} of {len(duel.ours)}", duel.rival]
            lines.append(f"| {' | '.join(cells)} |")
    ratios = versus.times(runs) or [0]
    (ours, our_broken), (theirs, their_broken) = (
        versus.broken(runs, lambda group, yes=yes: (group == "surefoot") == yes) for yes in (True, False)
    )
    missing = ", ".join(f"{title(name)} ({start})" for name, start in versus.alone(runs))
    about = [
        "The portfolio, Surefoot's default, against the rival that is best on the set, from the start, by the measure. "
        "Nobody can know before which one that is, so this favours the rivals. The paper's algorithms and SCRM count "
        "as rivals. Means are over the seeds that both have. Per measure, losses come first, in bold.",
        "A rival's certificate is Surefoot's bound for an older policy of the rival (see the notes); the largest of "
        "some twenty such bounds holds less often than each of them.",
        f"The portfolio is ahead: {', '.join(counts)}. It takes {min(ratios):.1f} to {max(ratios):.0f} times the "
        f"processor time of the best rival by value (median {np.median(ratios):.0f}).",
        f"Certificates: {our_broken} of {ours} runs of Surefoot's implementations have a violation, in any round; "
        f"{their_broken} of {theirs} runs of the others have one, under Surefoot's bound for a fixed policy. With "
        "confidence 95 %, one run in twenty may.",
    ]
    for measure in ("value", "reward"):
        own = [
            f"{method.removeprefix('Surefoot, ')}, {ahead} of {count}"
            for method, (ahead, count) in versus.own(runs, measure).items()
        ]
        if own:
            about.append(f"Surefoot's other learners, ahead of the portfolio by {measure}: {'; '.join(own)}.")
    if missing:
        about.append(f"No rival has run on {missing}.")
    about = [textwrap.fill(paragraph, 120) for paragraph in about]
    picture = "![The portfolio minus the best rival, per set and start](learners.svg)"
    return "\n\n".join(["## Where Surefoot wins and loses", *about, picture, "\n".join(lines)])


def averages(runs):
    """One row per set, start and method, with the means over the seeds."""
    groups = {}
    for run in runs.values():
        groups.setdefault((run["set"], run["start"], run["method"]), []).append(run)
    rows = []
    for (name, start, method), found in groups.items():
        row = {"set": name, "start": start, "method": method, "group": found[0]["group"], "seeds": len(found)}
        for key in ("value", "greedy", "reward", "certified", "cpu", "mb", "labels"):
            given = [run[key] for run in found if run.get(key) is not None]
            row[key] = float(np.mean(given)) if given else None
        row["deviation"] = float(np.std([run["value"] for run in found], ddof=1)) if len(found) > 1 else None
        row["violations"] = sum(run.get("violations", 0) for run in found)
        row["statements"] = sum(run.get("statements", 0) for run in found)
        rows.append(row)
    return with_summaries(rows)


def with_summaries(rows):
    """Names the variant of Vowpal Wabbit that is the default, and the best one in hindsight."""
    extra = []
    for place in sorted({(r["set"], r["start"]) for r in rows}):
        tried = {r["method"]: r for r in rows if r["group"] == "vw" and (r["set"], r["start"]) == place}
        # Sets of many features have no quadratic variant.
        default = tried.get(vw.default(64)) or tried.get(vw.default(65))
        if default is not None:
            extra.append(default | {"method": vw.PREFIX + DEFAULT, "group": "default", "variant": default["method"]})
        if len(tried) > 1:
            best = max(tried.values(), key=lambda r: r["value"])
            title = vw.PREFIX + BEST
            extra.append(best | {"method": title, "group": "hindsight", "variant": best["method"], "tried": len(tried)})
    return rows + extra


def title(name):
    return TITLES.get(name, name)


def shown(row, start):
    """Offline, every variant of Vowpal Wabbit is shown."""
    return row["group"] != "vw" or start == "offline"


def order(rows):
    """The methods in the order of their files: ours, rivals, then those in hindsight."""
    listed = [name for module in (thompson, trees, regressions, vw) for name in [*module.RIVALS, *module.OFFLINE]]
    listed = [*ours.MEMBERS, *ours.OFFLINE, vw.PREFIX + DEFAULT, *listed]
    found = {row["method"] for row in rows}
    known = [name for name in dict.fromkeys(listed) if name in found]
    return [*known, *sorted(found - set(known))]


def matrix(rows, start, names):
    """Value and reward per method and set."""
    here = [r for r in rows if r["start"] == start and shown(r, start)]
    found = {(r["method"], r["set"]): r for r in here}
    fair = [r for r in here if r["group"] != "hindsight"]
    best = {n: max((r["value"] for r in fair if r["set"] == n), default=None) for n in names}
    best_reward = {n: max((r["reward"] or 0 for r in fair if r["set"] == n), default=None) for n in names}
    lines = [f"| value{'' if start == 'offline' else ' / reward'} | {' | '.join(title(n) for n in names)} |"]
    lines.append("| --- " * (len(names) + 1) + "|")
    for method in order(here):
        cells = []
        for name in names:
            row = found.get((method, name))
            if row is None:
                cells.append("")
                continue
            mark = row["group"] != "hindsight"
            cell = strong(row["value"], mark and row["value"] == best[name])
            if row["reward"] is not None:
                cell += " / " + strong(row["reward"], mark and row["reward"] == best_reward[name])
            cells.append(cell)
        lines.append(f"| {method} | {' | '.join(cells)} |")
    if start == "uniform":
        limits = [r for r in rows if r["start"] == "limit"]
        for method in dict.fromkeys(r["method"] for r in limits):
            cells = {r["set"]: f"{number(r['value'])} ({r['labels']:,.0f})" for r in limits if r["method"] == method}
            lines.append(f"| *{method} (their number)* | {' | '.join(cells.get(n, '') for n in names)} |")
    return "\n".join(lines)


def details(rows, start, name):
    here = [r for r in rows if r["start"] == start and r["set"] == name and shown(r, start)]
    lines = ["| method | value | greedy | reward | certified | violations | CPU | MB | seeds |", "| --- " * 9 + "|"]
    for method in order(here):
        row = next(r for r in here if r["method"] == method)
        value = number(row["value"]) + (f" ± {row['deviation']:.3f}" if row["deviation"] is not None else "")
        cells = [method + chosen(row), value]
        cells += [number(row[key]) for key in ("greedy", "reward", "certified")]
        cells.append(f"{row['violations']} of {row['statements']}" if row["statements"] else "")
        cells += [f"{row['cpu']:.1f}", "" if row["mb"] is None else f"{row['mb']:.0f}", str(row["seeds"])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def chosen(row):
    """The variant behind a row, and the number of those tried."""
    if "variant" not in row:
        return ""
    tried = f"of {row['tried']}: " if "tried" in row else ""
    return f" ({tried}{row['variant'].removeprefix(vw.PREFIX)})"


def variants(rows):
    tried = [r for r in rows if r["group"] == "vw" and r["start"] != "offline"]
    places = list(dict.fromkeys((r["set"], r["start"]) for r in tried))
    lines = [
        "| variant | " + " | ".join(f"{title(n)}, {s}" for n, s in places) + " |",
        "| --- " * (len(places) + 1) + "|",
    ]
    found = {(r["method"], r["set"], r["start"]): r for r in tried}
    for method in dict.fromkeys(r["method"] for r in tried):
        cells = []
        for place in places:
            row = found.get((method, *place))
            cells.append(f"{number(row['value'])} / {number(row['reward'])}" if row else "")
        lines.append(f"| {method.removeprefix(vw.PREFIX)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def notes(runs, rows, skipped, options):
    fixed = ", ".join(sets.FIXED_ON)
    only = ", ".join(name for name in sets.NAMES if name not in sets.FIXED_ON)
    lines = [
        f"Settings, ours and the rivals', were fixed on {fixed}. Results there are optimistic for both.",
        f"{only}: only reported. No setting was fixed on them.",
        "Certificates of rivals are Surefoot's (`surefoot select`), by the last tenth of the records or the last "
        "round, for the policy before these records. The final policy has learned from them too, so it has no "
        "certificate. Offline, they are for the policy learned from the first 80 % of the log, by the rest.",
        "Violations compare with the value on the test split. A certificate bounds the value on the stream, which "
        "differs by chance; the writers of the digits' test split are other people than those of the stream.",
        "Weak start: Surefoot's reward models also have the weights of the first policy, as features and as a first guess. "
        "Rivals have only the decisions of that policy in the first round. This favours Surefoot.",
        "Best in hindsight: the variant with the largest mean value per set, by the test split. No user can choose so.",
        "50 actions: values are mean rewards. With seed 1, the logger has 0.309, and the best policy 0.877.",
        "The supervised limits are from one seed. The number of right guesses is that of the run with the most.",
    ]
    binary = ours.Surefoot(options.surefoot).fingerprint
    older = {r["set"] for r in runs.values() if r["group"] == "surefoot" and r["binary"] != binary}
    if older:
        names = ", ".join(title(name) for name in [*sets.NAMES, "shop"] if name in older)
        lines.append(f"Some or all runs of Surefoot on {names} are by another binary than the one below.")
    lines += [f"Skipped: {name}: {reason}" for name, reason in skipped.items()]
    missing = [n for n in [*sets.NAMES, "shop"] if not any(r["set"] == n for r in rows) and n not in skipped]
    if missing:
        lines.append(f"No runs yet: {', '.join(map(title, missing))}.")
    lines.append(
        f"{datetime.date.today()}, {platform.machine()}, Python {platform.python_version()}, {surefoot(options)}."
    )
    lines.append(", ".join(f"{package} {version(package)}" for package in PACKAGES) + ".")
    wrapped = [textwrap.fill(line, 118, initial_indent="- ", subsequent_indent="  ") for line in lines]
    return "\n".join(["## Notes", "", *wrapped])


def surefoot(options):
    done = subprocess.run([str(options.surefoot), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def number(value, form=".3f"):
    return "" if value is None else f"{value:{form}}"


def strong(value, yes, form=".3f"):
    return f"**{number(value, form)}**" if yes else number(value, form)
