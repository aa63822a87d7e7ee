# The Rust part of the package. Its documentation is in crates/surefoot-python/src.

import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, final, type_check_only

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "ArrowTable",
    "Certificate",
    "Environment",
    "Features",
    "Learner",
    "LogSource",
    "Logs",
    "Policy",
    "Rounds",
    "Session",
    "__version__",
    "_verify",
    "_verify_run",
    "certify",
    "check_estimator",
    "evaluate",
    "formats",
    "read_certificates",
    "rule_of_thumb",
    "run_shard",
    "select",
    "simulate",
    "sizes",
    "write_certificates",
]

__version__: str

@type_check_only
class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@type_check_only
class _Sparse(Protocol):
    def tocsr(self) -> Any: ...

@type_check_only
class _Watch(Protocol):
    def searching(self, share: float, /) -> object: ...

@type_check_only
class _WatchRounds(_Watch, Protocol):
    def round(self, report: dict[str, Any], /) -> object: ...

@type_check_only
class _Map(Protocol):
    def __call__(self, task: str, shards: list[bytes], payload: bytes, /) -> list[bytes]: ...

_Path: TypeAlias = str | os.PathLike[str]
_Range: TypeAlias = tuple[float, float]
_Contexts: TypeAlias = ArrayLike | _Sparse | _ArrowStream
_Eligible: TypeAlias = NDArray[np.bool_] | Sequence[Sequence[int]]
_Candidates: TypeAlias = ArrayLike | Sequence[_Sparse] | tuple[_Contexts, ArrayLike] | _ArrowStream
_Floats: TypeAlias = NDArray[np.float64]
# A SciPy matrix if the contexts are sparse.
_Features: TypeAlias = NDArray[np.float32] | Any
# h(p, q, c): one number per record.
_H: TypeAlias = Callable[[_Floats, _Floats, _Floats], ArrayLike]
# A policy, and since when it was fixed: the round, the first round and record it has not seen, and the size of its set.
_Challenger: TypeAlias = tuple[Policy, tuple[int, int, int, int] | None]
_CertificateKind: TypeAlias = Literal["certificate", "ladder", "gate", "hand-over"]

@final
class Certificate:
    @property
    def upper(self) -> float: ...
    @property
    def vacuous(self) -> bool: ...
    @property
    def at_least(self) -> float: ...
    @property
    def is_difference(self) -> bool: ...
    @property
    def reward_range(self) -> _Range: ...
    @property
    def theorem(self) -> str: ...
    @property
    def bounds(self) -> str: ...
    @property
    def delta(self) -> float: ...
    @property
    def lam(self) -> float: ...
    @property
    def records(self) -> int: ...
    @property
    def estimate(self) -> float: ...
    @property
    def kl(self) -> float: ...
    @property
    def assumptions(self) -> list[str]: ...
    def to_json(self) -> str: ...
    @staticmethod
    def from_json(text: str, *, reward_range: _Range = (0.0, 1.0)) -> Certificate: ...
    def to_dict(self) -> dict[str, Any]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __reduce__(self) -> tuple[Callable[..., Certificate], tuple[Any, ...]]: ...

@final
class Environment:
    @staticmethod
    def dataset(
        name: str,
        *,
        noise: float = 0.2,
        seed: int = 1,
        features: str = "raw",
        intercept: bool = False,
        premade: bool = True,
    ) -> Environment: ...
    @staticmethod
    def labelled(
        X: _Contexts,
        y: ArrayLike,
        X_test: _Contexts,
        y_test: ArrayLike,
        *,
        name: str = "labels",
        noise: float = 0.2,
        seed: int = 1,
        features: str = "raw",
        intercept: bool = False,
        premade: bool = True,
    ) -> Environment: ...
    @staticmethod
    def synthetic(
        *,
        n_actions: int = 5,
        n_features: int = 10,
        margin: float = 0.6,
        ambiguous: float = 0.1,
        drift: float | None = None,
        seed: int = 1,
        features: str = "raw",
        intercept: bool = False,
    ) -> Environment: ...
    @staticmethod
    def finite(X: _Contexts, rewards: ArrayLike, *, seed: int = 1) -> Environment: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def features(self) -> Features: ...
    @property
    def n_features(self) -> int: ...
    @property
    def interactions(self) -> int: ...
    @property
    def kind(self) -> Literal["labels", "synthetic", "finite"]: ...
    def first_policy(self, *, alpha: float = 0.2, exploration: float = 0.0) -> Policy: ...
    def collect(self, policy: Policy, n: int, *, round: int = 0, start: int = 0) -> Logs: ...
    def evaluate(self, policy: Policy, *, round: int = 0) -> tuple[float, float]: ...
    def best_reward(self, *, round: int = 0) -> float: ...
    def truth(self, *, round: int = 0) -> tuple[_Features, NDArray[np.uint32]]: ...

@final
class Features:
    @staticmethod
    def raw(n_features: int, *, intercept: bool = False) -> Features: ...
    @staticmethod
    def fourier(
        n_features: int, count: int, bandwidth: float, *, seed: int = 1, intercept: bool = False
    ) -> Features: ...
    @staticmethod
    def named(name: str, known: _Contexts, *, seed: int = 1, intercept: bool = False) -> Features: ...
    @staticmethod
    def trees(
        logs: Logs,
        *,
        n_trees: int = 40,
        n_leaves: int = 16,
        shrinkage: float = 0.2,
        least_records: int = 20,
        ridge: float = 3.0,
        share: float = 0.5,
        seed: int = 1,
        intercept: bool = False,
    ) -> Features: ...
    @staticmethod
    def _kernel(
        landmarks: _Contexts, bandwidth: float, projection: ArrayLike, intercept: bool, beside: bool = False
    ) -> Features: ...
    @staticmethod
    def _trees(
        n_features: int, feature: ArrayLike, threshold: ArrayLike, intercept: bool, beside: bool
    ) -> Features: ...
    def _with_contexts(self) -> Features: ...
    def _with_softmax(self, weights: ArrayLike, constants: ArrayLike) -> Features: ...
    @property
    def kind(self) -> Literal["raw", "fourier", "kernel", "trees"]: ...
    @property
    def n_features_in(self) -> int: ...
    @property
    def n_features_out(self) -> int: ...
    def transform(self, X: _Contexts) -> _Features: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __reduce__(self) -> tuple[Callable[..., Features], tuple[Any, ...]]: ...

@final
class Policy:
    @staticmethod
    def uniform(n_actions: int) -> Policy: ...
    @staticmethod
    def standard(features: Features, n_actions: int, *, exploration: float = 0.0) -> Policy: ...
    @staticmethod
    def over_candidates(
        features: Features,
        n_candidate_features: int,
        n_actions: int,
        *,
        cross: bool = True,
        cross_bits: int = 18,
        exploration: float = 0.0,
    ) -> Policy: ...
    @staticmethod
    def _over_candidates(
        mean: ArrayLike,
        scale: float | ArrayLike,
        features: Features,
        exploration: float,
        basis: ArrayLike | None,
        joint: tuple[int, int, int, list[tuple[int, int]], list[tuple[int, int]], int],
    ) -> Policy: ...
    @staticmethod
    def gaussian(
        mean: ArrayLike,
        scale: float | ArrayLike,
        *,
        features: Features | None = None,
        exploration: float = 0.0,
        basis: ArrayLike | None = None,
    ) -> Policy: ...
    @staticmethod
    def softmax(weights: ArrayLike, *, alpha: float = 1.0, features: Features | None = None) -> Policy: ...
    @staticmethod
    def custom(distribution: Callable[..., ArrayLike], n_actions: int) -> Policy: ...
    @staticmethod
    def mixture(policies: Sequence[Policy], weights: Sequence[float]) -> Policy: ...
    @staticmethod
    def load(path: _Path) -> Policy: ...
    def _posterior(self, posterior: str) -> str: ...
    @staticmethod
    def _with_inputs(policy: Policy, inputs: str) -> Policy: ...
    def save(self, path: _Path) -> None: ...
    def _save_certified(
        self, path: _Path, certificates: Sequence[tuple[int, _CertificateKind, Certificate]]
    ) -> None: ...
    @property
    def kind(self) -> Literal["gaussian", "uniform", "softmax", "mixture", "callable"]: ...
    @property
    def version(self) -> str | None: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def features(self) -> Features | None: ...
    @property
    def n_candidate_features(self) -> int | None: ...
    @property
    def exploration(self) -> float: ...
    @property
    def mean(self) -> _Floats: ...
    @property
    def scale(self) -> float | _Floats: ...
    @property
    def basis(self) -> _Floats | None: ...
    @property
    def fingerprint(self) -> str | None: ...
    @property
    def inputs(self) -> dict[str, Any] | None: ...
    def predict_proba(
        self, X: _Contexts, *, eligible: _Eligible | None = None, candidates: _Candidates | None = None
    ) -> _Floats: ...
    def propensity(
        self,
        X: _Contexts,
        action: ArrayLike,
        *,
        eligible: _Eligible | None = None,
        candidates: _Candidates | None = None,
    ) -> _Floats: ...
    def sample(
        self,
        X: _Contexts,
        *,
        seed: int,
        keys: ArrayLike | None = None,
        eligible: _Eligible | None = None,
        candidates: _Candidates | None = None,
    ) -> tuple[NDArray[np.uint32], _Floats]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def kl(self, prior: Policy) -> float: ...
    def __reduce__(self) -> tuple[Callable[..., Policy], tuple[Any, ...]]: ...

@final
class Logs:
    def __new__(
        cls,
        X: _Contexts,
        action: ArrayLike,
        pscore: ArrayLike,
        reward: ArrayLike,
        *,
        n_actions: int | None = None,
        reward_range: _Range = (0.0, 1.0),
        eligible: _Eligible | None = None,
        candidates: _Candidates | None = None,
        version: str = "",
    ) -> Logs: ...
    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> Logs: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def _counted(self) -> bool: ...
    @property
    def n_features(self) -> int: ...
    @property
    def version(self) -> str: ...
    @property
    def reward_range(self) -> _Range: ...
    @property
    def X(self) -> _Features: ...
    @property
    def action(self) -> NDArray[np.uint32]: ...
    @property
    def pscore(self) -> _Floats: ...
    @property
    def cost(self) -> _Floats: ...
    @property
    def reward(self) -> _Floats: ...
    @property
    def eligible(self) -> list[list[int]] | None: ...
    @property
    def candidates(self) -> tuple[_Features, NDArray[np.int64]] | None: ...
    @property
    def n_candidate_features(self) -> int | None: ...
    @property
    def fingerprint(self) -> str: ...
    def save(self, path: _Path, *, policy: Policy | None = None) -> None: ...
    @staticmethod
    def load(path: _Path, *, reward_range: _Range = (0.0, 1.0)) -> Logs: ...
    def __reduce__(self) -> tuple[Callable[..., Logs], tuple[Any, ...]]: ...

@final
class Learner:
    def __new__(
        cls,
        algorithm: str,
        *,
        lam: str,
        posterior: str,
        sharpness: str,
        choice: str,
        start: str,
        optimiser: str,
        epochs: int,
        batch_size: int,
        learning_rate: float,
        decay: str,
        precision: str,
        iterations: int,
        held_back: str,
        trade: float,
        delta: float,
        spending: str,
        rounds: int | None,
        gate: str,
        seed: int,
        gamma: float | None,
        penalty: float,
        divergence: bool,
        learn_scale: bool,
        window: str,
        members: str,
        goal: str,
        thompson_v: str,
        hand_over_v: float,
        estimator: _H | None,
        slope: _H | None,
    ) -> Learner: ...
    @property
    def gate(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class Session:
    def __new__(
        cls, learner: Learner, first: Policy, *, reward_range: _Range = (0.0, 1.0), unknown: bool = False
    ) -> Session: ...
    def take(self, logs: Logs, *, certify: bool = True, watch: _Watch | None = None) -> dict[str, Any]: ...
    def remember(self, logs: Logs) -> None: ...
    @property
    def rounds(self) -> int: ...
    @property
    def running(self) -> Policy: ...
    @property
    def current(self) -> Policy: ...
    @property
    def newest(self) -> Policy: ...
    @property
    def hand_over(self) -> Policy | None: ...
    @property
    def first(self) -> Policy: ...
    @property
    def runs_unknown(self) -> bool: ...
    @property
    def deployed(self) -> list[Policy | None]: ...
    @property
    def logs(self) -> list[Logs]: ...
    def save(self, folder: _Path, statements: Sequence[tuple[int, str, Certificate]]) -> None: ...
    @staticmethod
    def load(folder: _Path, *, reward_range: _Range = (0.0, 1.0)) -> Session: ...
    def settings(self) -> tuple[dict[str, Any], str]: ...
    def _checkpoint(self) -> dict[str, Any]: ...
    @staticmethod
    def _resume(
        learner: Learner,
        *,
        first: Policy,
        logs: Sequence[Logs],
        deployed: Sequence[Policy | None],
        learned: Sequence[_Challenger],
        incumbent: _Challenger | None,
        started: int | None,
        challengers: Sequence[_Challenger],
        own: Sequence[Policy],
        kept: tuple[float, float] | None,
        hand_overs: Sequence[Policy | None],
        portfolio: tuple[str, Sequence[Policy]] | None,
        reward_range: _Range,
        ledger: str,
    ) -> Session: ...
    @property
    def ledger(self) -> str: ...
    @property
    def head(self) -> str: ...
    def _most_off(self, logs: Logs, records: int) -> tuple[int, float, float]: ...
    def prove(self) -> dict[str, Certificate | None]: ...

@final
class LogSource:
    @staticmethod
    def open(
        source: _Path | Sequence[_Path] | _ArrowStream,
        *,
        format: str | None = None,
        action: str | None = None,
        propensity: str | None = None,
        reward: str | None = None,
        event_id: str | None = None,
        policy_version: str | None = None,
        actions_from_one: bool = False,
        actions: int | list[str] | None = None,
        candidates_column: str | None = None,
        identity: str | None = None,
        action_is: str | None = None,
        positions: bool = False,
        rows_are_candidates: bool = False,
        chosen: str | None = None,
        candidate_features: Sequence[str] | None = None,
        catalogue: _Path | _ArrowStream | None = None,
        catalogue_key: str | None = None,
    ) -> LogSource: ...
    def to_arrow(self) -> ArrowTable: ...
    def scan(self, *, by: str = "policy-version") -> dict[str, Any]: ...
    def _lint(
        self,
        *,
        reward_range: _Range,
        policies: dict[str, Policy | _Path],
        deployed: dict[str | None, Policy | _Path],
    ) -> dict[str, Any]: ...
    def _evaluate(
        self,
        policies: dict[str, Policy | _Path],
        *,
        reward_range: _Range,
        estimators: Sequence[str] | None,
        model: str,
        ignore: Sequence[str],
        delta: float,
        replicates: int,
        seed: int,
        largest_weight: float | None,
        map: _Map | None = None,
    ) -> dict[str, dict[str, Any]]: ...
    def _select(
        self,
        policies: dict[str, Policy | _Path],
        *,
        reward_range: _Range,
        prior: Sequence[float] | None,
        delta: float,
        map: _Map | None = None,
    ) -> dict[str, Any]: ...
    def rounds(
        self,
        *,
        by: str = "policy-version",
        set_aside: float = 0.1,
        reward_range: _Range = ...,
        features: Sequence[str] | None = None,
        ignore: Sequence[str] = ...,
        categorical: Sequence[str] = ...,
        vocabulary: int = 64,
        hash_bits: int = 8,
        standardise: bool = True,
        prior: Policy | None = None,
        cross: Sequence[str] | None = None,
        cross_bits: int = 18,
        memory: int | None = None,
        cache: _Path | None = None,
        map: _Map | None = None,
    ) -> Rounds: ...
    def score(self, policy: Policy | _Path, *, seed: int, probabilities: bool = False) -> ArrowTable: ...
    def convert(
        self, path: _Path, *, format: str | None = None, ignore: Sequence[str] = ...
    ) -> tuple[int, list[tuple[str, str]]]: ...

@final
class ArrowTable:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    @property
    def column_names(self) -> list[str]: ...
    def to_pandas(self) -> Any: ...
    def to_polars(self) -> Any: ...
    def __len__(self) -> int: ...

@final
class Rounds:
    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> Logs: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def actions(self) -> list[str]: ...
    @property
    def feature_names(self) -> list[str]: ...
    @property
    def skipped(self) -> int: ...
    @property
    def interleaved(self) -> bool: ...
    @property
    def reward_range(self) -> _Range: ...
    @property
    def set_aside(self) -> tuple[_Features, NDArray[np.uint32]] | None: ...
    def retrain(
        self,
        learner: Learner,
        *,
        prior: Policy | str,
        held_back: float,
        exploration: float,
        intercept: bool,
        prior_is_older: bool = False,
        candidates: Sequence[tuple[str, Callable[..., Callable[..., ArrayLike]]]] = ...,
        watch: _Watch | None = None,
    ) -> dict[str, Any]: ...
    def forget(self) -> None: ...

def run_shard(task: str, shard: bytes, payload: bytes) -> bytes: ...
def certify(
    policy: Policy,
    rounds: Sequence[Logs],
    *,
    prior: Policy | None = None,
    deployed: Sequence[Policy] | None = None,
    baseline: bool = False,
    delta: float = 0.05,
    lambdas: Sequence[float] | None = None,
) -> Certificate: ...
def _verify(
    statements: Sequence[tuple[int, str, Certificate]],
    policies: Sequence[Policy],
    rounds: Sequence[Logs],
    collected_by: Sequence[str | None],
    heads: Sequence[str],
) -> dict[str, Any]: ...
def _verify_run(folder: _Path, heads: Sequence[str]) -> dict[str, Any]: ...
def read_certificates(path: _Path) -> list[tuple[int, _CertificateKind, Certificate]]: ...
def write_certificates(path: _Path, certificates: Sequence[tuple[int, _CertificateKind, Certificate]]) -> None: ...
def formats() -> list[str]: ...
def rule_of_thumb(X: _Contexts) -> float: ...
def evaluate(
    logs: Logs,
    policy: Policy | ArrayLike,
    *,
    estimators: Sequence[str | _H] | None,
    model: Literal["linear"] | ArrayLike | None,
    delta: float,
    replicates: int,
    seed: int,
    largest_weight: float | None,
) -> dict[str, Any]: ...
def select(
    logs: Logs,
    policies: Sequence[Policy | ArrayLike],
    *,
    prior: Sequence[float] | None,
    estimators: Sequence[str | _H] | None,
    model: Literal["linear"] | ArrayLike | None,
    delta: float,
    replicates: int,
    seed: int,
) -> dict[str, Any]: ...
def check_estimator(h: _H, slope: _H | None = None) -> bool: ...
def simulate(
    environment: Environment,
    first: Policy,
    learner: Learner,
    sizes: Sequence[int],
    *,
    certify: Literal["never", "last", "each"] = "never",
    watch: _WatchRounds | None = None,
) -> dict[str, Any]: ...
def sizes(
    total: int, rounds: int | None, schedule: str | Sequence[int] = "auto", *, algorithm: str = "seq-adj-ls"
) -> list[int]: ...
