"""The supervised limit: learners that see labels instead of rewards."""

import warnings

import lightgbm
import numpy as np
from meter import Meter
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression


def logistic(x, y, test, classes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=30, max_iter=150 if len(x) < 20_000 else 50).fit(x, y)
    p = np.zeros((len(test), classes))
    p[:, model.classes_] = model.predict_proba(test)
    return p


def trees(x, y, test, classes):
    settings = {"objective": "multiclass", "num_class": classes, "num_leaves": 15, "verbose": -1, "num_threads": 1}
    settings |= {"min_data_in_leaf": 10, "deterministic": True, "force_row_wise": True}
    return lightgbm.train(settings, lightgbm.Dataset(x, y), 60).predict(test)


LEARNERS = {"logistic regression": logistic, "LightGBM": trees}
ALL, SEEN = "all labels, ", "as many labels as right guesses, "


def learn(world, learner, labels):
    """A learner with the first `labels` labels of the stream."""
    data, meter = world.data, Meter()
    with meter:
        p = LEARNERS[learner](data.stream[:labels], data.label[:labels], data.test, data.classes)
    greedy = world.truth(p)[1]
    # A classifier's most probable class is its decision; there is nothing to explore.
    return {"value": greedy, "greedy": greedy, "reward": None, "certified": None, "labels": labels, **meter.used()}
