"""Result objects: tables in a terminal and in a notebook, rows for pandas and polars."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from surefoot._surefoot import Certificate, Logs, Policy
from surefoot.errors import refused

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = [
    "Estimate",
    "Evaluation",
    "Finding",
    "History",
    "Learned",
    "LintReport",
    "Selection",
    "Simulation",
    "Verification",
    "Weights",
]

Interval = tuple[float, float]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, tuple):
        return f"{value[0]:.4f} .. {value[1]:.4f}"
    return str(value)


class Table:
    """A result with rows, which is shown as a table and can be converted to a data frame."""

    def _title(self) -> str:
        return ""

    def _notes(self) -> list[str]:
        return []

    def _shown(self) -> list[dict[str, Any]]:
        """The rows as they are shown, possibly with fewer columns."""
        return self.rows()

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per row, with plain numbers."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas data frame."""
        import pandas

        return pandas.DataFrame(self.rows())

    def to_polars(self) -> polars.DataFrame:
        """The rows as a polars data frame."""
        import polars

        return polars.DataFrame(self.rows(), infer_schema_length=None)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        rows = self._shown()
        header = list(rows[0]) if rows else []
        return header, [[_cell(row.get(name)) for name in header] for row in rows]

    def __str__(self) -> str:
        header, rows = self._cells()
        widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
        # Texts are left-aligned, numbers right-aligned.
        texts = [any(isinstance(row.get(name), str) for row in self._shown()) for name in header]
        lines = []
        for line in [header, *rows] if any(name.strip() for name in header) else rows:
            cells = [c.ljust(w) if text else c.rjust(w) for c, w, text in zip(line, widths, texts)]
            lines.append("  ".join(cells).rstrip())
        return "\n".join([*([self._title(), ""] if self._title() else []), *lines, *self._notes()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        header, rows = self._cells()
        line: Callable[[list[str], str], str] = lambda cells, tag: (
            "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"
        )
        title = f"<caption>{html.escape(self._title())}</caption>" if self._title() else ""
        body = "".join(line(cells, "td") for cells in rows)
        notes = "".join(f"<div>{html.escape(note)}</div>" for note in self._notes())
        return f"<table>{title}<thead>{line(header, 'th')}</thead><tbody>{body}</tbody></table>{notes}"


def _percent(probability: float) -> str:
    """With as many digits as it needs: 99.99 % must not read as 100 %."""
    return f"{100 * probability:.6f}".rstrip("0").rstrip(".") + " %"


def _ends(name: str, interval: Interval | None) -> dict[str, float | None]:
    lower, upper = interval if interval is not None else (None, None)
    return {f"{name}_lower": lower, f"{name}_upper": upper}


@dataclass(frozen=True)
class Estimate:
    """The result of one estimator: the reward, its standard error, and confidence intervals.

    ``bias`` is ``"none"``, ``"vanishes"`` (with the number of records), ``"stays"``, or ``"unknown"`` for your own estimators.
    """

    estimator: str
    value: float
    standard_error: float
    bootstrap: Interval | None
    bernstein: Interval | None
    bias: str = "unknown"


@dataclass(frozen=True)
class Weights:
    """Diagnostics of the importance weights: whether the estimates can be trusted.

    ``effective`` is the effective sample size. ``verdict`` tells whether the mean weight is 1, as right propensities have it:
    ``"fits"``, ``"cannot-tell"``, ``"above"``, ``"below"`` or ``"below-or-rare"``.
    """

    mean: float
    standard_error: float
    z: float | None
    verdict: str
    largest: float
    effective: float
    zero: float


@dataclass(frozen=True, repr=False)
class Evaluation(Table):
    """The off-policy evaluation of a policy, in rewards.

    The interval ``anytime`` is proven, and it is anytime-valid: it may be looked at as often as one likes. ``certified`` is
    ``False`` if the logs have a flaw that its proof does not allow for, such as records that occur twice. ``recommended`` names
    the estimator to use, or is ``None`` if only the interval should be used; ``reason`` says why.
    """

    records: int
    confidence: float
    estimates: list[Estimate]
    anytime: Interval
    weights: Weights
    warnings: list[str]
    certified: bool = True
    recommended: str | None = None
    reason: str = ""
    name: str = ""

    @staticmethod
    def _of(found: dict[str, Any], name: str = "") -> Evaluation:
        estimates = [Estimate(**estimate) for estimate in found["estimates"]]
        parts = {**found, "estimates": estimates, "weights": Weights(**found["weights"]), "name": name}
        return Evaluation(**parts)

    def __getitem__(self, estimator: str) -> Estimate:
        """The estimate with this name, or with the only name that begins with it."""
        exact = [e for e in self.estimates if e.estimator == estimator]
        found = exact or [e for e in self.estimates if e.estimator.lower().startswith(estimator.lower())]
        if len(found) != 1:
            raise KeyError(f"{estimator}: there are {', '.join(e.estimator for e in self.estimates)}")
        return found[0]

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                **({"policy": self.name} if self.name else {}),
                "estimator": e.estimator,
                "value": e.value,
                "standard_error": e.standard_error,
                **_ends("bootstrap", e.bootstrap),
                **_ends("bernstein", e.bernstein),
            }
            for e in self.estimates
        ]

    def _shown(self) -> list[dict[str, Any]]:
        percent = _percent(self.confidence)
        return [
            {
                "estimator": e.estimator,
                "reward": e.value,
                "± se": e.standard_error,
                "bias": e.bias,
                f"bootstrap {percent}": e.bootstrap,
                f"Bernstein {percent}": e.bernstein,
            }
            for e in sorted(self.estimates, key=lambda e: ("none", "vanishes", "stays", "unknown").index(e.bias))
        ]

    def _title(self) -> str:
        return self.name

    def _notes(self) -> list[str]:
        w, percent = self.weights, _percent(self.confidence)
        proven = "proven, at any time" if self.certified else "NOT proven"
        return [
            "",
            f"{proven}: {_cell(self.anytime)} ({percent})",
            f"recommended: {self.recommended or 'no estimate'}: {self.reason}",
            f"weights: mean {w.mean:.4f} ± {w.standard_error:.4f}, largest {w.largest:.1f}, "
            f"effective sample size {w.effective:.0f} of {self.records}",
            *(f"warning: {warning}" for warning in self.warnings),
        ]


@dataclass(frozen=True, repr=False)
class Selection(Table):
    """Bounds for several policies, in rewards: with probability ``confidence`` every ``at_least`` holds."""

    records: int
    confidence: float
    names: list[str]
    estimates: list[float]
    at_least: list[float]
    weights: list[float]
    best: str
    mixture_at_least: float
    contrasts: dict[str, list[Estimate]] = field(default_factory=dict)
    certified: bool = True
    warnings: list[str] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        columns = zip(self.names, self.estimates, self.at_least, self.weights)
        return [{"policy": n, "estimate": e, "at_least": a, "mixture_weight": w} for n, e, a, w in columns]

    def _notes(self) -> list[str]:
        percent = _percent(self.confidence)
        return [
            "",
            f"best: {self.best}; their mixture brings at least {self.mixture_at_least:.4f} ({percent}, all at once)",
            *(f"warning: {warning}" for warning in self.warnings),
        ]


class History(Table, Sequence[dict[str, Any]]):
    """The reports of all rounds: one dictionary per round."""

    def __init__(self, rounds: list[dict[str, Any]] | None = None) -> None:
        self._rounds = list(rounds or [])

    def __getitem__(self, place: Any) -> Any:
        return self._rounds[place]

    def __len__(self) -> int:
        return len(self._rounds)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rounds)

    def rows(self) -> list[dict[str, Any]]:
        return [_flat(number, report) for number, report in enumerate(self._rounds, 1)]


def _flat(number: int, report: dict[str, Any]) -> dict[str, Any]:
    best = report.get("ladder") or report.get("certificate")
    row = {"round": report.get("round", number), "records": report["n"]}
    for name in ("true_reward", "accuracy", "mean_reward", "promoted"):
        if report.get(name) is not None:
            row[name] = report[name]
    if best is not None:
        row["certified"] = None if best.vacuous else best.at_least
    row.update({"lambda": report["lambda"], "kl": report["kl"], "seconds": report["seconds"]})
    return row


@dataclass(frozen=True, repr=False)
class Simulation(Table):
    """The result of a simulated loop; ``policies`` are the policies that collected each round, and the final one.

    ``hand_over`` is the policy to hand over, if the learner makes a difference between it and the final one.
    """

    rounds: History
    first_reward: float
    first_accuracy: float
    best_reward: float
    policies: list[Policy]
    learned: list[Policy]
    logs: list[Logs]
    confidence: float
    hand_over: Policy | None = None

    @property
    def policy(self) -> Policy:
        """The final policy of the loop."""
        return self.policies[-1]

    @property
    def rewards(self) -> list[float]:
        """The true reward of the first policy, and of the policy after each round."""
        return [self.first_reward, *(report["true_reward"] for report in self.rounds)]

    @property
    def certified(self) -> list[float | None]:
        """The certified lower bound of the reward after each round; ``None`` where the bound is vacuous or missing."""
        best = [report.get("ladder") or report.get("certificate") for report in self.rounds]
        return [None if c is None or c.vacuous else c.at_least for c in best]

    def rows(self) -> list[dict[str, Any]]:
        return self.rounds.rows()

    def _notes(self) -> list[str]:
        return ["", f"first policy {self.first_reward:.4f}, best possible {self.best_reward:.4f}"]


@dataclass(frozen=True)
class Finding:
    """A finding about logs."""

    severity: str
    check: str
    message: str
    count: int
    rows: list[dict[str, Any]]
    hint: str | None = None


@dataclass(frozen=True, repr=False)
class LintReport(Table):
    """The result of :func:`surefoot.lint`: errors in logs, and what the logs can support; the worst first."""

    summary: dict[str, Any]
    findings: list[Finding]

    @staticmethod
    def _of(found: dict[str, Any]) -> LintReport:
        return LintReport(found["summary"], [Finding(**finding) for finding in found["findings"]])

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "warning"]

    @property
    def ok(self) -> bool:
        """Whether there are no errors, so that these logs can be learned from."""
        return not self.errors

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"severity": f.severity, "check": f.check, "count": f.count, "message": f.message, "hint": f.hint}
            for f in self.findings
        ]

    def _shown(self) -> list[dict[str, Any]]:
        return [{"severity": f.severity, "check": f.check, "message": f.message} for f in self.findings]

    def _notes(self) -> list[str]:
        s = self.summary
        reward = "none" if s["mean_reward"] is None else f"{s['mean_reward']:.4f}"
        counts = f"{len(self.errors)} errors, {len(self.warnings)} warnings"
        choices = f"{s['actions']} actions"
        if s["candidates"] is not None:
            fewest, most = s["candidates"]
            choices = f"{most if fewest == most else f'{fewest} to {most}'} candidates per record"
        return ["", f"{s['records']} records, {choices}, mean reward {reward}; {counts}"]

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps({"summary": self.summary, "findings": [vars(f) for f in self.findings]})


@dataclass(frozen=True, repr=False)
class Learned(Table):
    """A policy learned from logs, with its certificates.

    ``logged`` and ``estimate`` are pairs of a reward and its standard error. ``columns`` are the columns that became
    features. ``members`` are the learners of a portfolio and ``candidates`` those of your own, each with the estimated reward
    by which the ``winner`` was chosen.
    """

    policy: Policy
    prior: Policy
    certificate: Certificate
    better: Certificate
    certified: bool
    logged: Interval
    estimate: Interval
    records: int
    rounds: int
    held_back: int
    lam: float
    kl: float
    columns: list[str]
    warnings: list[str]
    members: list[dict[str, Any]] = field(default_factory=list)
    candidates: list[dict[str, Any]] = field(default_factory=list)
    winner: str | None = None

    @property
    def at_least(self) -> float | None:
        """The certified lower bound of its reward; ``None`` if nothing is certified."""
        return None if self.certificate.vacuous or not self.certified else self.certificate.at_least

    @property
    def better_by(self) -> float | None:
        """The certified lower bound of its improvement over the newest round; ``None`` if nothing is certified.

        A bound of minus the whole range of rewards says nothing.
        """
        return self.better.at_least if self.certified and self.better.upper < 1 else None

    def save(self, path: Any) -> None:
        """Writes the policy, and its certificates to a file beside it; none if it is not certified.

        ``surefoot score`` and ``surefoot evaluate`` read the policy file. The basis of a policy
        (``posterior="shaped"``, the default here) is in a second file, ``basis-*.safetensors``: keep them together.
        """
        kinds: list[tuple[Literal["ladder", "gate"], Certificate]] = [
            ("ladder", self.certificate),
            ("gate", self.better),
        ]
        if self.policy.kind == "callable":
            allowed = (
                "one of Surefoot's own: save your model, and keep the certificate beside it (certificate.to_json())"
            )
            raise refused("a policy that is saved", allowed, f"the candidate {self.winner}")
        proven = [(self.rounds, kind, c) for kind, c in kinds if self.certified]
        self.policy._save_certified(path, proven)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "records": self.records,
                "rounds": self.rounds,
                "logged": self.logged[0],
                "logged_error": self.logged[1],
                "estimate": self.estimate[0],
                "estimate_error": self.estimate[1],
                "certified": self.at_least,
                "better_by": self.better_by,
            }
        ]

    def _shown(self) -> list[dict[str, Any]]:
        plus_minus: Callable[[Interval], str] = lambda pair: f"{pair[0]:.4f} ± {pair[1]:.4f}"
        lines = {
            "records": f"{self.records} in {self.rounds} round{'s' if self.rounds != 1 else ''}",
            "held back": self.held_back,
            **({} if self.members else {"lambda": f"{self.lam:g}"}),
            **{f"learner {m['member']}, estimated{', chosen' * m['leads']}": m["estimate"] for m in self.members},
            **{f"candidate {c['name']}, estimated{', chosen' * c['leads']}": c["estimate"] for c in self.candidates},
            "reward of the newest round": plus_minus(self.logged),
            "reward of the new policy, estimated": plus_minus(self.estimate),
            "... certified": "nothing" if self.at_least is None else f"at least {self.at_least:.4f}",
            "... more than the newest round": "nothing"
            if self.better_by is None
            else f"at least {self.better_by:+.4f}",
        }
        return [{"": name, " ": value} for name, value in lines.items()]

    def _notes(self) -> list[str]:
        return [f"warning: {warning}" for warning in self.warnings]


@dataclass(frozen=True, repr=False)
class Verification(Table):
    """The result of :func:`surefoot.verify`: true if logs and policies alone reproduce everything that is claimed."""

    verified: bool
    rounds: int
    policies: int
    propensities: int
    delta: float | None
    budget: list[dict[str, Any]]
    head: str | None
    margins: float | None
    certificates: list[dict[str, Any]]
    differences: list[str]
    trust: list[str]

    @classmethod
    def _of(cls, found: dict[str, Any]) -> Verification:
        differences = list(found["differences"])
        for checked in found["certificates"]:
            name = f"round {checked['round']}, {checked['kind']}"
            differences.extend(f"{name}: {difference}" for difference in checked["differences"])
        return cls(**{**found, "differences": differences})

    def __bool__(self) -> bool:
        return self.verified

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "round": checked["round"],
                "kind": checked["kind"],
                "theorem": checked["theorem"],
                "upper": checked["upper"],
                "verified": not checked["differences"],
                "on_trust": checked["on_trust"],
            }
            for checked in self.certificates
        ]

    def _notes(self) -> list[str]:
        trust = [f"on trust: {what}" for what in self.trust]
        return ["", *(self.differences or ["all of it comes out again from logs and policies"]), *trust]
