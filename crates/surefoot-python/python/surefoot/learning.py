r"""Learners with scikit-learn's conventions, one ``partial_fit`` per round.

A round consists of the logs of one deployed policy: contexts ``X``, the ``action`` taken, its propensity ``pscore``
(the probability with which it was taken), and the ``reward``. Rewards are converted to costs :math:`c \in [-1, 0]`.
Each learner minimises, over Gaussian posteriors :math:`Q` of linear predictors,

.. math:: \frac1N \sum_i h_\lambda(\pi_Q(a_i|x_i), q_i, c_i) + \frac{\mathrm{KL}(Q, P)}{\lambda N},

with its own :math:`h` over its own rounds. The certificates of the policies hold with probability :math:`1 - \delta`,
for all rounds simultaneously.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot._candidates import stacked, without_ids
from surefoot._progress import watch
from surefoot._results import History
from surefoot._surefoot import Certificate, Features, Learner, Logs, Policy, Session
from surefoot.errors import refused, wrong_value

try:
    from sklearn.base import BaseEstimator as _Base
    from sklearn.exceptions import NotFittedError
except ImportError:  # scikit-learn is optional, and little of it is needed

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """The learner was used before it was fitted."""

    class _Base:  # type: ignore[no-redef]
        @classmethod
        def _get_param_names(cls) -> list[str]:
            return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return {name: getattr(self, name) for name in self._get_param_names()}

        def set_params(self, **params: Any) -> _Base:
            for name, value in params.items():
                if name not in self._get_param_names():
                    raise ValueError(f"{type(self).__name__} has no parameter {name}: {self._get_param_names()}")
                setattr(self, name, value)
            return self


__all__ = [
    "SCRM",
    "BatchLS",
    "CertificateWarning",
    "NotFittedError",
    "Portfolio",
    "PropensityWarning",
    "SeqAdjLS",
    "SeqLS",
    "Shift",
]


_Self = TypeVar("_Self", bound="_Estimator")


def _names(X: Any) -> list[str] | None:
    """The names of the columns of a frame or a table."""
    # In an Arrow table, the attribute `columns` holds the data.
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return list(names)


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)


class CertificateWarning(UserWarning):
    """The certificate of the learned policy is vacuous, or there is none because ``n_actions`` is not given."""


class PropensityWarning(UserWarning):
    """The logged propensities differ from those of the policy that this learner said to deploy."""


class _Fitted(_Base):  # type: ignore[misc]
    """The attributes of a fitted learner."""

    policy_: Policy
    certificate_: Certificate | None
    history_: History
    n_features_in_: int
    n_actions_: int
    n_rounds_: int
    ledger_head_: str


@dataclass(kw_only=True, eq=False, repr=False)
class _Estimator(_Fitted):
    """The base class of all learners. Its fields are the parameters, so scikit-learn and editors see one signature."""

    n_actions: int | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    prior: Policy | None = None
    features: Features | None = None
    intercept: bool = True
    exploration: float = 0.05
    cross: bool = True
    cross_bits: int = 18
    lam: float | str = "auto"
    posterior: str = "shaped"
    sharpness: float | str = 1
    choice: str = "previous"
    start: str = "warm"
    certify: bool = True
    delta: float = 0.05
    spending: str = "forever"
    rounds: int | None = None
    held_back: float | str = "auto"
    trade: float = 0.0
    optimiser: str = "adam"
    epochs: int = 10
    batch_size: int = 128
    learning_rate: float = 0.01
    decay: str = "linear"
    precision: str = "single"
    iterations: int = 200
    seed: int = 1
    progress: bool | None = None

    _algorithm: ClassVar[str] = ""
    _unset: ClassVar[dict[str, Any]] = {
        "gamma": 0.01,
        "penalty": 1.0,
        "divergence": False,
        "learn_scale": True,
        "window": "newest",
        "members": "usual",
        "goal": "policy",
        "v": "auto",
        "hand_over_v": 0.1,
        "estimator": None,
        "slope": None,
        "gate": "always",
    }

    def _name(self) -> str:
        return self._algorithm

    def _learner(self, rounds: int | None = None, first: Policy | None = None) -> Learner:
        """The settings for Rust. Settings that are not parameters of this learner have their defaults."""
        own = {**self._unset, **self.get_params(deep=False)}
        if first is not None:
            own["posterior"] = first._posterior(own["posterior"])
        if own["slope"] is not None and own["estimator"] is None:
            raise refused("slope", "the derivative of an estimator that is given too", "alone")
        taken = (
            "posterior choice start optimiser epochs batch_size learning_rate decay precision iterations trade delta spending gate "
            "seed gamma penalty divergence learn_scale window goal hand_over_v estimator slope"
        ).split()
        texts: dict[str, Any] = {name: str(own[name]) for name in ("lam", "sharpness", "held_back")}
        texts["thompson_v"] = str(own["v"])
        texts["members"] = own["members"] if isinstance(own["members"], str) else ",".join(own["members"])
        return Learner(self._name(), rounds=rounds, **texts, **{name: own[name] for name in taken})

    def _settings(self) -> dict[str, Any]:
        """The settings that must not change during a loop."""
        return {name: v for name, v in self.get_params(deep=False).items() if name not in ("certify", "progress")}

    def _first(self, n_features: int, n_actions: int, n_candidate_features: int | None = None) -> Policy:
        own = self.get_params(deep=False)
        prior: Policy | None = own["prior"]
        if prior is not None:
            if own["exploration"] not in (_Estimator.exploration, prior.exploration):
                raise refused("exploration", f"that of the prior, {prior.exploration}", own["exploration"])
            return prior
        features = own["features"]
        if n_candidate_features is not None:
            return Policy.over_candidates(
                # The products with a constant would be the candidate's own features again.
                features or Features.raw(n_features, intercept=False),
                n_candidate_features,
                n_actions,
                cross=own["cross"],
                cross_bits=own["cross_bits"],
                exploration=own["exploration"],
            )
        if features is None:
            features = Features.raw(n_features, intercept=own["intercept"])
        return Policy.standard(features, n_actions, exploration=own["exploration"])

    def _logs(
        self,
        X: Any,
        action: Any,
        pscore: Any,
        reward: Any,
        eligible: Any = None,
        n_actions: int | None = None,
        candidates: Any = None,
    ) -> Logs:
        if isinstance(X, Logs):
            if candidates is not None:
                raise TypeError("Logs have their own candidates: give them where the Logs are made")
            if self.n_actions not in (None, X.n_actions):
                raise refused("n_actions", f"{X.n_actions}, as in the logs", self.n_actions)
            return X
        missing = [name for name, v in (("action", action), ("pscore", pscore), ("reward", reward)) if v is None]
        if missing:
            raise TypeError(f"{' and '.join(missing)} should be given, one entry for each row of X")
        n_actions = n_actions or self.n_actions
        if n_actions is None and self.prior is not None:
            n_actions = self.prior.n_actions
        if candidates is not None:
            X, features, counts = stacked(X, candidates)
            if n_actions is not None and max(counts, default=0) > n_actions:
                row = next(row for row, count in enumerate(counts) if count > n_actions)
                allowed = f"at most {n_actions} (n_actions is the largest number of candidates in any round: give it)"
                raise wrong_value(row, "the number of candidates", allowed, counts[row])
            candidates = (features, counts)
        lowest, highest = self.reward_range
        return Logs(
            X,
            action,
            pscore,
            reward,
            n_actions=n_actions,
            reward_range=(lowest, highest),
            eligible=eligible,
            candidates=candidates,
        )

    def _begin(self, logs: Logs, X: Any) -> None:
        # A prior over the actions that happen to occur is not fixed before the records.
        self._unproven = self.prior is None and self.n_actions is None and logs._counted
        gate = self.get_params(deep=False).get("gate", "always")
        if self._unproven and gate != "always":
            raise refused("n_actions", f"given, because the gate {gate} needs certificates", self.n_actions)
        first = self._first(logs.n_features, logs.n_actions, logs.n_candidate_features)
        # Without a prior, nobody says which policy runs today: only its propensities are known.
        unknown = self.prior is None and gate != "always"
        learner = self._learner(self.rounds, first)
        self._session = Session(learner, first, reward_range=logs.reward_range, unknown=unknown)
        self.n_features_in_ = logs.n_features
        self._fixed = self._settings()
        names = _names(without_ids(X)) if logs.n_candidate_features is not None else _names(X)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        self.n_actions_ = logs.n_actions
        self.classes_ = np.arange(logs.n_actions)
        self.history_, self.certificate_ = History(), None
        # The count continues after a new fit, so that no two decisions share their random numbers.
        self._drawn: int = getattr(self, "_drawn", 0)

    def _take(self, logs: Logs) -> None:
        with watch(1, self.progress, f"round {self._session.rounds + 1}") as shown:
            report = self._session.take(logs, certify=self.certify and not self._unproven, watch=shown)
        report["mean_reward"] = float(logs.reward.mean())
        self.history_ = History([*self.history_, report])
        if not self._session.runs_unknown:
            self.policy_ = self._session.current
        self.n_rounds_ = self._session.rounds
        self.ledger_head_ = self._session.head
        self.certificate_ = report["ladder"] or report["certificate"]
        self._hand_over(report["handed_over"])

    def _hand_over(self, certificate: Certificate | None) -> None:
        """For learners whose policy to hand over is another one than the policy to deploy next."""

    def _warn(self) -> None:
        """Warns if the certificate is vacuous. It is called last, since a warning may be turned into an error."""
        if self.certify and self._unproven:
            message = (
                "NOT certified: n_actions was inferred from the records, so the prior depends on them: give n_actions"
            )
            warnings.warn(message, CertificateWarning, stacklevel=3)
        over_candidates = self._session.first.n_candidate_features is not None
        if self.certify and self.certificate_ is None and over_candidates and not self._session.runs_unknown:
            message = "NOT certified: a policy over candidates needs records that it has not seen: give held_back, such as 0.3"
            warnings.warn(message, CertificateWarning, stacklevel=3)
        if self.certificate_ is not None and self.certificate_.vacuous:
            message = "these logs cannot certify any reward of the new policy above the lowest"
            warnings.warn(message, CertificateWarning, stacklevel=3)

    def _check_features(self, X: Any) -> None:
        over_candidates = self._session.first.n_candidate_features is not None
        names = _names(without_ids(X) if over_candidates else X)
        known = getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and names != list(known):
            raise ValueError(
                f"The feature names should match those that were passed during fit: {list(known)}, but are {names}"
            )

    def _fitted(self) -> Policy:
        if not hasattr(self, "policy_") and hasattr(self, "_session"):
            raise NotFittedError(
                "No policy has passed the gate yet: keep the policy that runs today, and go on with its logs and 'partial_fit'"
            )
        if not hasattr(self, "policy_"):
            name = type(self).__name__
            raise NotFittedError(f"This {name} instance is not fitted yet: call 'fit' or 'partial_fit' first")
        return self.policy_

    def partial_fit(
        self: _Self,
        X: Any,
        action: ArrayLike | None = None,
        pscore: ArrayLike | None = None,
        reward: ArrayLike | None = None,
        *,
        eligible: Any = None,
        candidates: Any = None,
    ) -> _Self:
        """Learns from one more round, and remembers it. ``policy_`` is the policy to deploy next.

        ``X`` may be a NumPy array (``float32`` needs no conversion), a SciPy CSR matrix, any object with Arrow's C
        stream, or a :class:`Logs`, which needs no other argument. If it fails or is interrupted, the learner is
        unchanged.

        ``candidates`` are those of each record, with their features, in one of the forms that :class:`Logs` takes. An
        ``action`` is then a place among the candidates of its record. In a table of candidates, rows with the same
        ``event_id`` are one record; they follow the rows of ``X`` or, if ``X`` is a table with ``event_id`` too, are found
        by it.
        """
        if not hasattr(self, "_session"):
            logs = self._logs(X, action, pscore, reward, eligible, candidates=candidates)
            self._begin(logs, X)
        else:
            changed = [name for name, value in self._settings().items() if not _same(value, self._fixed[name])]
            if changed:
                raise refused(
                    f"{' and '.join(changed)} of a loop under way", "as it was: fit begins a new one", "another"
                )
            self._check_features(X)
            logs = self._logs(X, action, pscore, reward, eligible, self.n_actions_, candidates)
            self._check_propensities(logs)
        try:
            self._take(logs)
        except BaseException:
            if self._session.rounds == 0:
                del self._session
            raise
        self._warn()
        return self

    def _check_propensities(self, logs: Logs) -> None:
        """Rounds after the first should be collected by the policy that this learner said to deploy."""
        if self._session.runs_unknown:
            return
        # A sample is enough, since wrong propensities are mostly wrong everywhere.
        row, logged, p = self._session._most_off(logs, 200)
        if abs(logged - p) > 1e-4:
            message = (
                f"row {row}: pscore is {logged:.6g}, but the policy that was to be deployed gives the action {p:.6g}: "
                "log what sample() returns. What is certified holds if pscore is right, whatever was deployed"
            )
            warnings.warn(message, PropensityWarning, stacklevel=4)

    def fit(
        self: _Self,
        X: Any,
        action: ArrayLike | None = None,
        pscore: ArrayLike | None = None,
        reward: ArrayLike | None = None,
        *,
        rounds: ArrayLike | None = None,
        eligible: Any = None,
        candidates: Any = None,
    ) -> _Self:
        """Forgets everything, and learns from all records at once.

        ``rounds`` has the round of each record; rounds are ordered by their first records. Without it, all records are
        one round. ``X`` may also be a :class:`Logs`, or a list of them, one per round. ``candidates`` are as in
        :meth:`partial_fit`.
        """
        if isinstance(X, (list, tuple)) and X and all(isinstance(logs, Logs) for logs in X):
            parts = list(X)
        elif rounds is None:
            parts = [self._logs(X, action, pscore, reward, eligible, candidates=candidates)]
        else:
            parts = self._split(self._logs(X, action, pscore, reward, eligible, candidates=candidates), rounds)
        kept = {name: self.__dict__.pop(name) for name in list(vars(self)) if name.endswith("_") or name == "_session"}
        try:
            self._begin(parts[0], X)
            for logs in parts[:-1]:
                self._session.remember(logs)
            self._take(parts[-1])
        except BaseException:
            self.__dict__.pop("_session", None)
            self.__dict__.update(kept)
            raise
        self._warn()
        return self

    @staticmethod
    def _split(whole: Logs, rounds: Any) -> list[Logs]:
        labels = np.asarray(rounds)
        if labels.shape != (len(whole),):
            raise ValueError(f"rounds should have the shape ({len(whole)},), but has {labels.shape}")
        edges = np.flatnonzero(labels[1:] != labels[:-1]) + 1
        if len(edges) + 1 != len(np.unique(labels)):
            raise ValueError("the records of a round should follow one another: sort them by round")
        ends = [0, *edges.tolist(), len(whole)]
        return [whole[start:end] for start, end in zip(ends[:-1], ends[1:])]

    def predict(self, X: Any, *, eligible: Any = None, candidates: Any = None) -> NDArray[np.intp]:
        """The most probable action in each context; with ``candidates``, its place among them."""
        best: NDArray[np.intp] = self.predict_proba(X, eligible=eligible, candidates=candidates).argmax(axis=1)
        return best if candidates is not None else np.asarray(self.classes_)[best]

    def predict_proba(self, X: Any, *, eligible: Any = None, candidates: Any = None) -> NDArray[np.float64]:
        r"""The probabilities :math:`\pi(a|x)` of all actions, exact to :math:`10^{-10}`, one row per context.

        With ``candidates``, a row has as many entries as the largest set of candidates, with 0 beyond its own.
        """
        policy = self._fitted()
        self._check_features(X)
        return policy.predict_proba(X, eligible=eligible, candidates=candidates)

    def sample(
        self,
        X: Any,
        *,
        seed: int | None = None,
        keys: ArrayLike | None = None,
        eligible: Any = None,
        candidates: Any = None,
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        """Draws an action in each context. Returns the actions and their propensities; log both.

        The draw for a record depends only on the seed and the record's key. Without them, decisions are numbered
        consecutively, so the same calls in the same order give the same decisions. Copies of a learner, such as workers
        that load the same pickle, use the same numbers: give each copy its own ``seed``, or each event a key.
        """
        policy = self._fitted()
        self._check_features(X)
        if keys is None and seed is None:
            n = X.shape[0] if hasattr(X, "shape") else len(X)
            keys = np.arange(self._drawn, self._drawn + n, dtype=np.uint64)
            self._drawn += n
        if seed is None:
            # The seed depends on the round too: draws must be independent of those that were learned from.
            seed = int(np.random.SeedSequence([self.seed, self.n_rounds_]).generate_state(1, np.uint64)[0])
        return policy.sample(X, seed=seed, keys=keys, eligible=eligible, candidates=candidates)

    def score(
        self,
        X: Any,
        action: ArrayLike | None = None,
        pscore: ArrayLike | None = None,
        reward: ArrayLike | None = None,
        *,
        eligible: Any = None,
        candidates: Any = None,
    ) -> float:
        """The self-normalised importance sampling estimate of the policy's reward, on logs it was not learned from."""
        from surefoot.evaluation import evaluate

        policy = self._fitted()
        self._check_features(X)
        logs = self._logs(X, action, pscore, reward, eligible, self.n_actions_, candidates)
        found = evaluate(logs, policy, estimators=["snips"], replicates=0)
        return found.estimates[0].value

    def save_run(self, folder: str | os.PathLike[str]) -> None:
        """Saves the loop as a new folder: its rounds, policies, certificates and session.

        ``surefoot verify FOLDER`` and :func:`surefoot.verify` check the folder; :meth:`load_run` continues the loop.
        """
        if not hasattr(self, "_session"):
            self._fitted()
        statements = []
        for number, report in enumerate(self.history_, self.n_rounds_ - len(self.history_) + 1):
            for kind, name in (
                ("gate", "decided_by"),
                ("certificate", "certificate"),
                ("ladder", "ladder"),
                ("hand-over", "handed_over"),
            ):
                if report.get(name) is not None:
                    statements.append((number, kind, report[name]))
        self._session.save(folder, statements)

    def load_run(self: _Self, folder: str | os.PathLike[str]) -> _Self:
        """Continues a loop that a learner with the same settings saved, bit for bit.

        The reports of its rounds are not loaded: ``history_`` is empty.
        """
        session = Session.load(folder, reward_range=(self.reward_range[0], self.reward_range[1]))
        learner = self._learner(self.rounds, session.first)
        if session.settings() != (learner.to_dict(), str(learner.gate)):
            raise refused("the settings of the saved loop", "those of this learner", "others")
        if not session.logs:
            raise refused("the saved loop", "at least one round", "none")
        self._session = session
        self._fixed = self._settings()
        self.n_features_in_, self.n_actions_ = session.logs[0].n_features, session.logs[0].n_actions
        self.classes_ = np.arange(self.n_actions_)
        self.history_, self.n_rounds_, self.ledger_head_ = History(), session.rounds, session.head
        if not session.runs_unknown:
            self.policy_ = session.current
        self._unproven = self.prior is None and self.n_actions is None and session.first.n_candidate_features is None
        proves = self.certify and not self._unproven and not session.runs_unknown
        proven = session.prove() if proves else {"ladder": None, "certificate": None}
        self.certificate_ = proven["ladder"] or proven["certificate"]
        self._drawn = getattr(self, "_drawn", 0)
        self._hand_over(None)
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__() if hasattr(_Base, "__getstate__") else vars(self))  # type: ignore[misc, unused-ignore]
        if "_session" in state:
            state["_session"] = state["_session"]._checkpoint()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        checkpoint = state.pop("_session", None)
        if hasattr(_Base, "__setstate__"):
            super().__setstate__(state)
        else:
            self.__dict__.update(state)
        if checkpoint is not None:
            settings = type(self)(**self._fixed)
            self._session = Session._resume(settings._learner(settings.rounds, checkpoint["first"]), **checkpoint)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # It has predict_proba but is not a classifier: the right action is never known.
        tags.classifier_tags = ClassifierTags()
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "policy_")


_COMMON = """
    Parameters
    ----------
    n_actions : int, optional
        The number of actions. By default one more than the largest action of the first round: then nothing is certified,
        unless a prior is given, because the prior would depend on the records. With candidates: the largest number of
        them in a record of any round, by default that of the first round; it changes no probability.
    reward_range : (float, float)
        The lowest and the highest possible reward.
    prior : Policy, optional
        A policy that was fixed before the first round, ideally the one that collected it. Its features and exploration
        are used, whatever ``intercept`` and ``exploration`` are by default. By default the prior prefers no action.
    features : Features, optional
        The feature map, fixed before the data. By default contexts are used unchanged.
    intercept : bool
        Whether to add a constant feature. Used only if ``features`` is not given.
    exploration : float
        The share of decisions that are drawn uniformly, in every policy. If a prior is given, leave it out, or give that of
        the prior.
    cross, cross_bits : bool, int
        With candidates: whether their scores use the products of all context features with all candidate features beside
        the candidate's own (``cross=False`` is for joint features of your own), and the base-2 logarithm of the largest
        number of such joint features. More are hashed.
    lam : float or str
        Lambda, which sets the smoothing and the weight of the divergence: a number, ``"auto"`` (chosen by certificate),
        ``"auto-doubling"``, ``"1/sqrt(m)"``, ``"theorem-4.4:ALPHA:GAMMA"`` or
        ``"corollary-4.5:ALPHA:GAMMA:BETA1:BETA2"``.
    posterior : {"isotropic", "per-feature", "shaped"}
        The standard deviations of the posterior: one for all, one per feature, or one per principal axis of the
        contexts. With more than 2,048 features, ``"per-feature"`` is used in place of ``"shaped"``.
    sharpness : float or "auto"
        How much sharper the prior of the search is than the first policy.
    choice : {"previous", "newest"}
        Which records choose lambda and sharpness among their candidates: those of the round before, at no price, or those
        of the newest round, for which every certificate pays.
    start : {"warm", "anchor"}
        Whether a search starts at the current policy or at the prior.
    certify : bool
        Whether to certify the policy after each round, in ``certificate_``.
    delta : float
        The failure probability: the probability that any certificate of one kind is ever wrong.
    spending : {"forever", "even"}
        How delta is divided among rounds; ``"even"`` divides it evenly among ``rounds`` rounds.
    rounds : int, optional
        The total number of rounds, for ``spending="even"``.
    held_back : float or "auto"
        How many of the newest records are held out to certify, as a multiple of the newest round.
    trade : float
        The criterion that chooses lambda and sharpness: 0 is the certified risk, 1 the estimated risk, and values
        between are a weighted mean of both.
    gate : {"always", "improvement", "non-inferiority:MARGIN", "certified-risk"}
        When a new policy replaces the running one. If ``prior`` is given, it must be the policy that runs today: a round is
        refused if ``pscore`` is not the propensity of the policy that was to collect it. Without ``prior``, the policy that
        runs today is unknown: new policies are compared with its logged propensities and rewards, and it should go on until
        one of them passes. Until then there is no ``policy_``. ``"certified-risk"`` needs ``prior``.
    optimiser : {"adam", "lbfgs"}
        Adam on minibatches, or L-BFGS on the whole batch. ``epochs``, ``batch_size``, ``learning_rate``, ``decay`` and
        ``precision`` are for Adam, ``iterations`` is for L-BFGS.
    estimator, slope : callable, optional
        A vectorised estimator ``h(p, q, c)`` of your own, in place of the learner's, and its derivative in ``p`` (by
        default computed by finite differences).
    seed : int
        The seed of everything that is random.
    progress : bool, optional
        Whether to show progress. By default only in notebooks and terminals.

    Attributes
    ----------
    policy_ : Policy
        The policy to deploy next.
    certificate_ : Certificate or None
        Its best certificate.
    history_ : History
        The reports of all rounds.
    ledger_head_ : str
        The head of the ledger. Whoever has it before a round can check later, with :func:`verify`, what was fixed before it.
    """


@dataclass(kw_only=True, eq=False, repr=False)
class _Smoothing(_Estimator):
    gate: str = "always"
    estimator: Callable[..., Any] | None = None
    slope: Callable[..., Any] | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class Portfolio(_Estimator):
    __doc__ = (
        r"""A portfolio of learners, of which the best one leads: reward models on the contexts, on a kernel of them and on
    boosted trees, and the search of :class:`SeqAdjLS`. It is the default of :func:`learn` and :func:`simulate`.

    Reward models explore by Thompson sampling, with exact propensities. The leader is chosen by records from before those
    that certify. There are two policies: ``policy_``, of a reward model, explores and collects the next round, and
    ``hand_over_``, of the leader, is for when learning ends. ``members`` are some of ``"kernel"``, ``"linear"``,
    ``"logistic"``, ``"search"`` and ``"trees"``, or ``"all"``; the ``"usual"`` ones are all in :func:`learn`, and all but
    ``"logistic"`` while learning goes on. ``goal`` says which of the two policies :func:`learn` returns, ``"policy"`` (to hand over) or ``"reward"`` (to collect). ``v`` and
    ``hand_over_v`` say how widely the two policies explore: 1 samples from the posterior of the reward model.

    >>> import surefoot
    >>> world = surefoot.Environment.synthetic(seed=1)
    >>> learner = surefoot.Portfolio(prior=world.first_policy(alpha=0.0), members="linear", seed=1)
    >>> for round in range(3):
    ...     running = learner.policy_ if round else learner.prior
    ...     learner = learner.partial_fit(world.collect(running, 500, round=round, start=500 * round))
    >>> world.evaluate(learner.hand_over_)[0] > world.evaluate(learner.policy_)[0]
    True
    >>> world.evaluate(learner.hand_over_)[0] >= learner.hand_over_certificate_.at_least
    True
    """
        + _COMMON.rstrip()
        + """
    hand_over_ : Policy
        The policy to hand over if learning ended now.
    hand_over_certificate_ : Certificate or None
        Its certificate.
    """
    )

    members: str | Sequence[str] = "usual"
    goal: str = "policy"
    v: float | str = "auto"
    hand_over_v: float = 0.1
    gate: str = "always"

    _algorithm: ClassVar[str] = "portfolio"

    def _hand_over(self, certificate: Certificate | None) -> None:
        self.hand_over_ = self._session.hand_over or self._session.newest
        self.hand_over_certificate_ = certificate


class SeqAdjLS(_Smoothing):
    __doc__ = (
        r"""SeqAdjLS: adjusted logarithmic smoothing on all rounds (Algorithm 2).

    It minimises :math:`h(p, q, c) = -\frac p\lambda \ln\left(1 - \frac{\lambda c}{q (1 + \lambda c)}\right)` plus the
    divergence, which bounds the *difference* to the running policy. It is the best of the paper's in most loops.

    >>> import surefoot
    >>> world = surefoot.Environment.synthetic(seed=1)
    >>> learner = surefoot.SeqAdjLS(prior=world.first_policy(alpha=0.0), lam=0.4, seed=1)
    >>> for round in range(3):
    ...     running = learner.policy_ if round else learner.prior
    ...     learner = learner.partial_fit(world.collect(running, 1000, round=round, start=1000 * round))
    >>> world.evaluate(learner.policy_)[0] > world.evaluate(learner.prior)[0] + 0.1
    True
    >>> world.evaluate(learner.policy_)[0] >= learner.certificate_.at_least
    True
    """
        + _COMMON
    )
    _algorithm = "seq-adj-ls"


class SeqLS(_Smoothing):
    __doc__ = (
        r"""SeqLS: logarithmic smoothing on all rounds (Algorithm 1).

    It minimises :math:`h(p, q, c) = -\frac p\lambda \ln\left(1 - \frac{\lambda c}{q}\right)` plus the divergence from
    the first policy, the quantity in Theorem 3.2.

    >>> import numpy as np, surefoot
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> action = rng.integers(2, size=2000)
    >>> reward = (rng.random(2000) < np.where(action == (X[:, 0] > 0), 0.9, 0.1)).astype(float)
    >>> learner = surefoot.SeqLS(lam=0.4).fit(X, action, np.full(2000, 0.5), reward)
    >>> round(float(np.mean(learner.predict(X) == (X[:, 0] > 0))), 1)
    1.0
    """
        + _COMMON
    )
    _algorithm = "seq-ls"


class BatchLS(_Smoothing):
    __doc__ = (
        r"""BatchLS: logarithmic smoothing on the logs of the first policy, which is never replaced (Sakhi et al. 2024).

    It is a baseline: the same estimator as :class:`SeqLS`, without the loop. ``policy_`` is the policy it would deploy.

    >>> import surefoot
    >>> world = surefoot.Environment.synthetic(seed=1)
    >>> logs = world.collect(surefoot.Policy.uniform(5), 3000)
    >>> learner = surefoot.BatchLS(lam=0.4).fit(logs)
    >>> world.evaluate(learner.policy_)[0] > world.evaluate(surefoot.Policy.uniform(5))[0] + 0.1
    True
    """
        + _COMMON
    )
    _algorithm = "batch-ls"


@dataclass(kw_only=True, eq=False, repr=False)
class Shift(_Estimator):
    __doc__ = (
        r"""Logarithmic smoothing under context shift (Algorithm 3): it learns from the newest round only, with the
    policy that collected it as prior.

    With ``adjusted=True`` the estimator is that of :class:`SeqAdjLS`, otherwise that of :class:`SeqLS`. Theorem C.1
    bounds the mean over rounds of the policies' risks, each under the context distribution of its round.

    >>> import surefoot
    >>> world = surefoot.Environment.synthetic(drift=18.0, seed=1)
    >>> run = surefoot.simulate(world, surefoot.Shift(lam=0.4), rounds=3, interactions=3000, alpha=0.0)
    >>> run.rewards[-1] > run.rewards[0]
    True
    """
        + _COMMON
    )

    adjusted: bool = True

    def _name(self) -> str:
        return "shift-adj-ls" if self.adjusted else "shift-ls"


@dataclass(kw_only=True, eq=False, repr=False)
class SCRM(_Estimator):
    __doc__ = (
        r"""SCRM: sequential counterfactual risk minimisation (Zenati et al. 2023), for rounds of doubling size.

    It minimises :math:`\bar h + \mathrm{penalty}\,\sqrt{\widehat{\mathrm{var}}(h)/n}` with the weights
    :math:`p/(q + \gamma)`, or self-normalised weights for ``gamma=None``, over the newest round (``window="all"``: over
    all rounds). With ``sequential=False`` it is CRM (Swaminathan and Joachims 2015), which never redeploys. Its own
    theory certifies nothing; the certificates here hold however the policy was learned.

    >>> import surefoot
    >>> world = surefoot.Environment.synthetic(seed=1)
    >>> run = surefoot.simulate(world, surefoot.SCRM(), rounds=3, interactions=3000, alpha=0.0)
    >>> [len(logs) for logs in run.logs]
    [375, 750, 1875]
    """
        + _COMMON
    )

    sequential: bool = True
    gamma: float | None = 0.01
    penalty: float = 1.0
    divergence: bool = False
    learn_scale: bool = True
    window: str = "newest"
    gate: str = "always"

    def _name(self) -> str:
        return "scrm" if self.sequential else "crm"
