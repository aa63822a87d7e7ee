"""What can go wrong, as exceptions.

Each mirrors an error of the Rust core, is also the built-in exception that Python users would expect, and carries what the
error knows as attributes:

>>> import surefoot
>>> try:
...     surefoot.Logs([[1.0]], action=[0], pscore=[1.5], reward=[1.0], n_actions=2)
... except surefoot.DataError as error:
...     print(error)
...     print(error.row, error.column, error.allowed, error.value)
row 0: propensity should be in (0, 1], but is 1.5
0 propensity in (0, 1] 1.5
"""

from __future__ import annotations

from typing import Any

__all__ = ["DataError", "FileError", "OptimiserError", "SettingError", "SizeError", "SurefootError"]


class SurefootError(Exception):
    """Anything that Surefoot refuses or cannot do."""

    def __init__(self, message: str, **known: Any) -> None:
        super().__init__(message)
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        # Only what is not there comes here: not every error of a class knows everything.
        if name in ("row", "column", "allowed", "value", "place", "what", "expected", "found", "setting"):
            return None
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args[0], dict(self.__dict__)))


def _rebuild(cls: type[SurefootError], message: str, known: dict[str, Any]) -> SurefootError:
    return cls(message, **known)


class DataError(SurefootError, ValueError):
    """A value of the data is not allowed: ``row``, ``column``, ``allowed`` and ``value`` say which, ``place`` in which file."""


class SizeError(SurefootError, ValueError):
    """Two parts do not fit together: ``what`` should have ``expected``, but has ``found``."""


class SettingError(SurefootError, ValueError):
    """A setting is outside its range: ``setting``, ``allowed`` and ``value``."""


class OptimiserError(SurefootError, RuntimeError):
    """A search could not go on."""


class FileError(SurefootError, OSError):
    """A file cannot be read, written or understood: ``place`` says which."""

    def __str__(self) -> str:
        return str(self.args[0])


def refused(setting: str, allowed: str, value: object) -> SettingError:
    """The error of a setting that the Python side itself refuses."""
    return SettingError(
        f"{setting} should be {allowed}, but is {value}", setting=setting, allowed=allowed, value=str(value)
    )
