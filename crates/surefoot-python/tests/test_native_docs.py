"""The documentation of what is in Rust: all of it is there, and its examples are right."""

from __future__ import annotations

import doctest
import inspect
from types import GetSetDescriptorType
from typing import Any

import pytest

from surefoot import _surefoot

PLAIN = {name: value for name, value in vars(_surefoot).items() if not name.startswith("_")}
CLASSES = {name: value for name, value in PLAIN.items() if inspect.isclass(value)}


def everything() -> dict[str, Any]:
    """Functions, classes, and what is in classes, but for what Python itself calls."""
    found = dict(PLAIN)
    for owner, cls in CLASSES.items():
        members = {name: getattr(cls, name) for name in vars(cls) if not name.startswith("_")}
        found.update({f"{owner}.{name}": member for name, member in members.items()})
    return found


EVERYTHING = everything()


def examples_of(name: str) -> list[doctest.DocTest]:
    # Without a module: by itself the finder leaves out whatever does not say that it is from the module that is looked at, as
    # no method of a class of Rust does.
    found = doctest.DocTestFinder(recurse=False).find(EVERYTHING[name], name, module=False, globs={})
    return [one for one in found if one.examples]


WITH_EXAMPLES = sorted(name for name in EVERYTHING if examples_of(name))


def test_members_of_every_sort_are_found() -> None:
    assert len(CLASSES) >= 9
    for name in (
        "certify",
        "Certificate",
        "Certificate.from_json",
        "Certificate.to_dict",
        "Certificate.upper",
        "Rounds",
    ):
        assert name in EVERYTHING
    for name in ("certify", "Certificate", "Certificate.from_json", "Certificate.to_dict"):
        assert name in WITH_EXAMPLES


@pytest.mark.parametrize("name", sorted(EVERYTHING))
def test_every_member_is_documented(name: str) -> None:
    doc = EVERYTHING[name].__doc__
    assert doc is not None
    assert doc.strip()


@pytest.mark.parametrize(
    "name", sorted(n for n, member in EVERYTHING.items() if not isinstance(member, GetSetDescriptorType))
)
def test_all_but_attributes_have_an_example(name: str) -> None:
    assert name in WITH_EXAMPLES


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_are_right(name: str) -> None:
    if "import pandas" in EVERYTHING[name].__doc__:
        pytest.importorskip("pandas")
    said: list[str] = []
    for one in examples_of(name):
        result = doctest.DocTestRunner(verbose=False).run(one, out=said.append)
        assert result.attempted == len(one.examples)
        assert result.failed == 0, "".join(said)
