"""Open Bandit Pipeline's estimators, without PyTorch, which the package imports on the way and they do not use."""

import importlib.util
import sys
from unittest.mock import MagicMock

if importlib.util.find_spec("torch") is None:
    torch = MagicMock()
    torch.nn.Module = torch.utils.data.Dataset = type("Module", (), {})
    torch.Tensor = type("Tensor", (), {})
    sys.modules["torch"] = torch
    for name in ("nn", "nn.functional", "optim", "utils", "utils.data"):
        sys.modules[f"torch.{name}"] = MagicMock(Module=torch.nn.Module, Dataset=torch.nn.Module)

from obp.ope import (
    InverseProbabilityWeighting,
    SelfNormalizedInverseProbabilityWeighting,
    SubGaussianInverseProbabilityWeighting,
)


def estimators(names):
    """The estimators of these names, as surefoot calls them."""
    made = {}
    for name in names:
        kind, _, parameter = name.partition(":")
        made[name] = {
            "ips": InverseProbabilityWeighting,
            "snips": SelfNormalizedInverseProbabilityWeighting,
            "clipped": lambda: InverseProbabilityWeighting(lambda_=float(parameter)),
            "power-mean": lambda: SubGaussianInverseProbabilityWeighting(lambda_=float(parameter)),
        }[kind]()
    return made
