"""What Open Bandit Pipeline says of its own sample of the Open Bandit Dataset, for surefoot to say the same.

    python values.py FOLDER

For each of the six files of logs that the package carries, FOLDER gets a CSV with the file's own columns and those of an
evaluation policy (pi_0, pi_1, ...) and of predicted rewards (r_0, r_1, ...), and obp.json the values that the package's
estimators give. Both are made from a fixed seed.
"""

import json
import pathlib
import sys

import numpy as np
import pandas as pd

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "bench/rivals"))
import without_torch  # noqa: F401 (before the package, which asks for it)
import obp
from obp.ope import (
    DirectMethod,
    DoublyRobust,
    InverseProbabilityWeighting,
    SelfNormalizedDoublyRobust,
    SelfNormalizedInverseProbabilityWeighting,
    SubGaussianInverseProbabilityWeighting,
    SwitchDoublyRobust,
)


def main(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sample = pathlib.Path(obp.__file__).parent / "dataset" / "obd"
    values = {}
    for seed, path in enumerate(sorted(sample.glob("*/*/[amw]*.csv"))):
        name = f"{path.parts[-3]}-{path.stem}"
        logs = pd.read_csv(path, index_col=0)
        n, actions = len(logs), int(logs["item_id"].max()) + 1
        random = np.random.default_rng(seed)
        scores = random.normal(size=(n, actions))
        pi = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        predicted = random.uniform(0, 0.05, size=(n, actions))
        numbered = lambda prefix, table: pd.DataFrame(
            table, columns=[f"{prefix}{a}" for a in range(actions)], index=logs.index
        )
        pd.concat([logs, numbered("pi_", pi), numbered("r_", predicted)], axis=1).to_csv(folder / f"{name}.csv")

        given = dict(
            reward=logs["click"].to_numpy(),
            action=logs["item_id"].to_numpy(),
            pscore=logs["propensity_score"].to_numpy(),
            position=np.zeros(n, dtype=int),
            action_dist=pi[:, :, None],
            estimated_rewards_by_reg_model=predicted[:, :, None],
        )
        estimators = {
            "ips": InverseProbabilityWeighting(),
            "snips": SelfNormalizedInverseProbabilityWeighting(),
            "clipped:10": InverseProbabilityWeighting(lambda_=10),
            "power-mean:0.1": SubGaussianInverseProbabilityWeighting(lambda_=0.1),
            "dm": DirectMethod(),
            "dr": DoublyRobust(),
            "sndr": SelfNormalizedDoublyRobust(),
            "switch:2": SwitchDoublyRobust(lambda_=2),
        }
        values[name] = {key: float(e.estimate_policy_value(**given)) for key, e in estimators.items()}
    (folder / "obp.json").write_text(json.dumps(values, indent=1))


main(pathlib.Path(sys.argv[1]))
