"""Logs whose candidates have features, from files and from frames."""

import json

import numpy as np
import pandas
import pytest

import surefoot

TASTES = 3


@pytest.fixture(scope="module")
def rows():
    """Requests with four articles each. A user likes articles of the same taste; the logger is uniform."""
    rng = np.random.default_rng(5)
    found = []
    for i in range(900):
        user = rng.normal(size=TASTES)
        articles = rng.normal(size=(4, TASTES))
        chosen = int(rng.integers(4))
        likes = 1 / (1 + np.exp(-2 * articles[chosen] @ user))
        candidates = [{f"a{j}": round(float(v), 4) for j, v in enumerate(article)} for article in articles]
        found.append(
            {
                "event_id": f"e{i}",
                **{f"u{j}": round(float(v), 4) for j, v in enumerate(user)},
                "candidates": candidates,
                "action": chosen,
                "pscore": 0.25,
                "reward": float(rng.random() < likes),
            }
        )
    return found


def test_a_frame_with_lists_of_objects_learns_what_the_file_does(rows, tmp_path):
    path = tmp_path / "logs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    from_file, from_frame = surefoot.learn(path), surefoot.learn(pandas.DataFrame(rows))
    assert from_file.policy.fingerprint == from_frame.policy.fingerprint
    assert from_file.certified and from_file.at_least is not None
    assert from_file.estimate[0] > from_file.logged[0] + 0.1


def test_candidates_without_features_in_common_are_refused_in_words(rows):
    broken = pandas.DataFrame([{**row, "candidates": []} for row in rows])
    with pytest.raises(surefoot.SurefootError, match="candidate"):
        surefoot.learn(broken)
