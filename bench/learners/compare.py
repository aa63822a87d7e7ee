"""`make bench-learners`: Surefoot's learners against rivals, on the same interactions.

    compare.py                                   every run that is not in the results yet
    compare.py --only surefoot                   Surefoot's runs alone, beside the rivals' stored ones
    compare.py --sets digits,segment --starts uniform --only vw,trees --again

Runs are stored in bench/results/learners.json, one by one. A stored run of a rival is kept unless --again is given. A
stored run of Surefoot is kept if it was made by the same binary.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import limit
import meter
import ours
import picture
import regressions
import report
import sets
import thompson
import trees
import vw
import world
from threadpoolctl import threadpool_limits

FAMILIES = {"thompson": thompson, "trees": trees, "regressions": regressions, "vw": vw}
GROUPS = ["surefoot", *FAMILIES, "limit"]
OFFLINE_WORLD = "shop"
STARTS = list(world.STARTS)
QUICK = {"sets": ["digits", "segment", OFFLINE_WORLD], "interactions": 600, "records": 5_000, "seeds": [1]}


class Bench:
    def __init__(self, options):
        self.options = options
        self.surefoot = ours.Surefoot(options.surefoot)
        self.path = options.out / "learners.json"
        self.runs = json.loads(self.path.read_text())["runs"] if self.path.exists() else {}
        self.skipped = {}

    def store(self):
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"runs": dict(sorted(self.runs.items()))}, indent=1) + "\n")
        temporary.replace(self.path)

    def wanted(self, group, key, count=None):
        """Whether a run of a group is asked for, and not stored yet."""
        if group not in self.options.only or self.options.match not in key.split("/")[2]:
            return False
        stored = self.runs.get(key)
        if stored is None or self.options.again or stored["size"] != self.size(stored["set"]):
            return True
        if group == "surefoot":
            return stored.get("binary") != self.surefoot.fingerprint
        return count is not None and abs(stored.get("labels", 0) - count) > 0.02 * count

    def size(self, name):
        """The number of records that was asked for; 0 for all."""
        return self.options.records if name == OFFLINE_WORLD else self.options.interactions

    def measure(self, group, name, where, seed, work, count=None):
        """Does a run and stores its result."""
        key = "/".join([*where, name, str(seed)])
        if not self.wanted(group, key, count):
            return
        begin = time.time()
        try:
            # Surefoot is a process of its own already.
            result = work() if group == "surefoot" else meter.alone(work)
        except ours.Refused as reason:
            print(f"{key}: skipped: {reason}", file=sys.stderr)
            self.skipped[f"{name}, {where[1]}"] = str(reason)
            return
        result |= {"set": where[0], "start": where[1], "method": name, "seed": seed, "group": group}
        result["size"] = self.size(where[0])
        if group == "surefoot":
            result["binary"] = self.surefoot.fingerprint
        self.runs[key] = {k: round(v, 5) if isinstance(v, float) else v for k, v in result.items()}
        self.store()
        print(f"{key}: {result['value']:.3f}, {time.time() - begin:.0f} s", file=sys.stderr)

    def set(self, name, seed):
        """All runs on a set with a seed."""
        try:
            data = sets.load(name, seed, self.options.data, self.options.surefoot)
        except sets.Missing as reason:
            if name not in self.skipped:
                print(f"{name}: skipped: {reason}", file=sys.stderr)
            self.skipped[name] = str(reason)
            return
        weights = sets.first_weights(self.options.surefoot, data.path, seed)
        for start in self.options.starts:
            place = world.World(data, start, seed, weights, self.options.interactions)
            self.offline(place, name) if start == "offline" else self.online(place, name)
        if seed == min(self.options.seeds) and "uniform" in self.options.starts:
            self.limits(world.World(data, "uniform", seed, weights, self.options.interactions), name)

    def online(self, place, name):
        where, small = (name, place.start), place.data.stream.shape[1] <= 64
        for member, flags in ours.MEMBERS.items():
            work = lambda flags=flags: self.surefoot.simulate(place, flags)
            self.measure("surefoot", member, where, place.seed, work)
        for family, module in FAMILIES.items():
            for rival, make in module.RIVALS.items():
                if small or "quadratic" not in rival:
                    work = lambda make=make: world.play(make(), place, self.surefoot.certify)
                    self.measure(family, rival, where, place.seed, work)

    def offline(self, place, name):
        where = (name, "offline")
        small = name == OFFLINE_WORLD or place.data.stream.shape[1] <= 64
        log = place.log if name == OFFLINE_WORLD else world.log_of(place)
        scale = (lambda reward: reward) if name == OFFLINE_WORLD else world.guesses
        for member, flags in ours.OFFLINE.items():
            work = lambda flags=flags: self.surefoot.learn(place, log, flags, scale)
            self.measure("surefoot", member, where, place.seed, work)
        for family, module in FAMILIES.items():
            for rival, make in module.OFFLINE.items():
                if small or "quadratic" not in rival:
                    work = lambda make=make: world.learn_offline(make(), place, log, self.surefoot.certify, scale)
                    self.measure(family, rival, where, place.seed, work)

    def limits(self, place, name):
        """Supervised learners, with all labels and with as many as the best run has guessed right."""
        n = len(place.data.label)
        found = [
            r["reward"] for r in self.runs.values() if r["set"] == name and r["start"] == "uniform" and r["reward"]
        ]
        for learner in limit.LEARNERS:
            if learner == "LightGBM" and place.actions > 20:
                continue
            counts = {limit.ALL: n}
            if found:
                counts[limit.SEEN] = max(50, round(world.guesses(max(found)) * n))
            for title, count in counts.items():
                work = lambda learner=learner, count=count: limit.learn(place, learner, count)
                self.measure("limit", title + learner, (name, "limit"), place.seed, work, count)


def main():
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    sets.SCRATCH.mkdir(parents=True, exist_ok=True)
    # Imported before the runs: libraries are not memory of the one that uses them first.
    regressions.ipw_learner()
    bench = Bench(options)
    # One thread each.
    with threadpool_limits(1):
        for name in options.sets:
            for seed in options.seeds:
                if name != OFFLINE_WORLD:
                    bench.set(name, seed)
                elif "offline" in options.starts:
                    bench.offline(world.Shop(options.records, seed), name)
    text = report.page(bench.runs, bench.skipped, options)
    (options.out / "learners.md").write_text(text)
    picture.draw(bench.runs, report.title, options.out / "learners")
    print(text)


def arguments():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    comma = lambda text: text.split(",")
    names = [*sets.NAMES, OFFLINE_WORLD]
    flags.add_argument("--data", type=Path, default=Path(os.environ.get("SUREFOOT_DATA", sets.ROOT / "data")))
    flags.add_argument("--surefoot", type=Path, default=os.environ.get("SUREFOOT"), help="the binary")
    flags.add_argument("--sets", type=comma, default=names, help=", ".join(names))
    flags.add_argument("--starts", type=comma, default=STARTS, help=", ".join(STARTS))
    flags.add_argument("--seeds", type=lambda text: [int(seed) for seed in comma(text)], default=[1, 2, 3, 4, 5])
    flags.add_argument(
        "--only", type=comma, default=GROUPS, help=f"{', '.join(GROUPS)}, or rivals for all but surefoot"
    )
    flags.add_argument("--match", default="", help="only methods whose names contain this text")
    flags.add_argument("--interactions", type=int, default=0, help="0 for every record of a set")
    flags.add_argument("--records", type=int, default=100_000, help="of the offline world")
    flags.add_argument("--again", action="store_true", help="repeat stored runs")
    flags.add_argument("--quick", action="store_true", help="a test of the command: small sizes, other results")
    flags.add_argument("--out", type=Path, default=sets.ROOT / "bench/results")
    options = flags.parse_args()
    if options.quick:
        vars(options).update(QUICK, out=sets.SCRATCH / "quick")
    if "rivals" in options.only:
        options.only = [group for group in GROUPS if group != "surefoot"]
    for name, given, known in (
        ("sets", options.sets, names),
        ("starts", options.starts, STARTS),
        ("only", options.only, GROUPS),
    ):
        for wrong in set(given) - set(known):
            flags.error(f"--{name} should be among {', '.join(known)}, but is {wrong}")
    options.surefoot = Path(options.surefoot or sets.ROOT / "target/release/surefoot").resolve()
    if not options.surefoot.exists():
        flags.error(f"{options.surefoot} is not there: cargo build --release, or give --surefoot")
    return options


if __name__ == "__main__":
    main()
