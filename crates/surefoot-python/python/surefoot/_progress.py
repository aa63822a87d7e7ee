"""Progress bars, shown in terminals and notebooks only."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["watch"]


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


class _Bar:
    """A progress bar, which Rust updates a few times per second."""

    def __init__(self, rounds: int, bar: Any) -> None:
        self.bar, self.rounds, self.done = bar, rounds, 0

    def searching(self, share: float) -> None:
        self.bar.n = self.done + share
        self.bar.refresh()

    def round(self, report: dict[str, Any]) -> None:
        self.done += 1
        self.bar.n = self.done
        if "true_risk" in report:
            self.bar.set_postfix_str(f"reward {-report['true_risk']:.4f}")
        self.bar.refresh()

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()


class _Plain:
    """A fallback without tqdm: a single line that is overwritten."""

    n = 0.0
    total = 1
    text = ""

    def refresh(self) -> None:
        sys.stderr.write(f"\r{100 * self.n / self.total:3.0f} % {self.text}")
        sys.stderr.flush()

    def set_postfix_str(self, text: str) -> None:
        self.text = text

    def close(self) -> None:
        sys.stderr.write("\r" + " " * (8 + len(self.text)) + "\r")


class _Nobody:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        pass


def watch(rounds: int, progress: bool | None, what: str) -> _Bar | _Nobody:
    """A context manager for a progress bar; ``progress=None`` shows it in notebooks and terminals only."""
    if progress is False or (progress is None and not (_in_notebook() or sys.stderr.isatty())):
        return _Nobody()
    try:
        from tqdm.auto import tqdm
    except ImportError:
        plain = _Plain()
        plain.total = rounds
        return _Bar(rounds, plain)
    form = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining} {postfix}"
    return _Bar(rounds, tqdm(total=rounds, desc=what, bar_format=form, leave=False))
