"""Exceptions.

Each mirrors an error of the Rust core. It also derives from the built-in exception that Python users would expect, and
has the details of the error as attributes:

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
    """The base class of all errors of Surefoot."""

    def __init__(self, message: str, **known: Any) -> None:
        super().__init__(message)
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        # Only called for attributes that are not set: not every error has every detail.
        if name in ("row", "column", "allowed", "value", "place", "what", "expected", "found", "setting"):
            return None
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args[0], dict(self.__dict__)))


def _rebuild(cls: type[SurefootError], message: str, known: dict[str, Any]) -> SurefootError:
    return cls(message, **known)


class DataError(SurefootError, ValueError):
    """A value of the data is not allowed: see ``row``, ``column``, ``allowed`` and ``value``; ``place`` is the file."""


class SizeError(SurefootError, ValueError):
    """Sizes do not match: ``what`` should have size ``expected``, but has ``found``."""


class SettingError(SurefootError, ValueError):
    """A setting is not allowed: see ``setting``, ``allowed`` and ``value``."""


class OptimiserError(SurefootError, RuntimeError):
    """The optimiser could not continue."""


class FileError(SurefootError, OSError):
    """A file cannot be read, written or parsed: ``place`` says which."""

    def __str__(self) -> str:
        return str(self.args[0])


def refused(setting: str, allowed: str, value: object) -> SettingError:
    """The error for a setting that the Python side itself rejects."""
    return SettingError(
        f"{setting} should be {allowed}, but is {value}", setting=setting, allowed=allowed, value=str(value)
    )


def wrong_value(row: int, column: str, allowed: str, value: object) -> DataError:
    """The error for a value of the data that the Python side itself rejects."""
    message = f"row {row}: {column} should be {allowed}, but is {value}"
    return DataError(message, row=row, column=column, allowed=allowed, value=str(value))
