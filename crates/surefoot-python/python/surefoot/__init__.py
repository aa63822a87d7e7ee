"""Sequential off-policy learning: from the logs of a deployed policy to the next policy, with a certificate.

Learning
    :class:`Portfolio`, :class:`SeqAdjLS`, :class:`SeqLS`, :class:`Shift`, :class:`SCRM`, :class:`BatchLS`: one ``partial_fit`` per round.
Evaluation
    :func:`evaluate` and :func:`select`: off-policy evaluation and selection of policies.
Log files and data frames
    :func:`open_logs`, :func:`formats`, :func:`lint`, :func:`learn`, :func:`score`.
The loop
    :class:`Environment` and :func:`simulate`; :func:`certify`, :func:`verify`, :class:`Certificate`; :class:`Policy`.
Large logs
    :mod:`surefoot.engines`: local processes, Ray, Spark and Dask.
A running service
    :class:`Client` and :class:`AsyncClient`, with their errors and results in :mod:`surefoot.client`.
Other tools
    :mod:`surefoot.obp`, :mod:`surefoot.gym`, :mod:`surefoot.mlflow`, :mod:`surefoot.plot`.
"""

from surefoot._results import (
    Estimate,
    Evaluation,
    Finding,
    History,
    Learned,
    LintReport,
    Selection,
    Simulation,
    Verification,
    Weights,
)
from surefoot._surefoot import (
    ArrowTable,
    Certificate,
    Environment,
    Features,
    Logs,
    LogSource,
    Policy,
    Rounds,
    __version__,
    certify,
    formats,
    read_certificates,
    rule_of_thumb,
    write_certificates,
)
from surefoot.client import AsyncClient, Client
from surefoot.errors import DataError, FileError, OptimiserError, SettingError, SizeError, SurefootError
from surefoot.evaluation import check_estimator, evaluate, select
from surefoot.learning import (
    SCRM,
    BatchLS,
    CertificateWarning,
    NotFittedError,
    Portfolio,
    PropensityWarning,
    SeqAdjLS,
    SeqLS,
    Shift,
)
from surefoot.logs import learn, lint, open_logs, score
from surefoot.loop import simulate, verify

__all__ = [
    "SCRM",
    "ArrowTable",
    "AsyncClient",
    "BatchLS",
    "Certificate",
    "CertificateWarning",
    "Client",
    "DataError",
    "Environment",
    "Estimate",
    "Evaluation",
    "Features",
    "FileError",
    "Finding",
    "History",
    "Learned",
    "LintReport",
    "LogSource",
    "Logs",
    "NotFittedError",
    "OptimiserError",
    "Policy",
    "Portfolio",
    "PropensityWarning",
    "Rounds",
    "Selection",
    "SeqAdjLS",
    "SeqLS",
    "SettingError",
    "Shift",
    "Simulation",
    "SizeError",
    "SurefootError",
    "Verification",
    "Weights",
    "__version__",
    "certify",
    "check_estimator",
    "evaluate",
    "formats",
    "learn",
    "lint",
    "open_logs",
    "read_certificates",
    "rule_of_thumb",
    "score",
    "select",
    "simulate",
    "verify",
    "write_certificates",
]
