"""Clients of a running ``surefoot serve``: :class:`Client`, and :class:`AsyncClient` for asyncio.

Both take the same steps, which know nothing of the network (``_steps.py``, ``_batches.py``, ``_outbox.py``): what to send,
when to send it again, and what is left to send.
"""

from surefoot.client._async import AsyncClient
from surefoot.client._async_rewards import AsyncRewardSender
from surefoot.client._decisions import Decision, DecisionRequest, Reward
from surefoot.client._rewards import RewardSender
from surefoot.client._sync import Client
from surefoot.client.errors import (
    BatchError,
    NotAllowedError,
    NotFoundError,
    RefusedError,
    RewardsError,
    ServiceError,
    TooSlowError,
    UnavailableError,
    UnexpectedError,
    UnreachableError,
)

__all__ = [
    "AsyncClient",
    "AsyncRewardSender",
    "BatchError",
    "Client",
    "Decision",
    "DecisionRequest",
    "NotAllowedError",
    "NotFoundError",
    "RefusedError",
    "Reward",
    "RewardSender",
    "RewardsError",
    "ServiceError",
    "TooSlowError",
    "UnavailableError",
    "UnexpectedError",
    "UnreachableError",
]
