"""Watching what a provider answers on the HTTP level, refusals included."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from mule.adapters._failing import failure_of_rejection
from mule.transcript.request_retry import is_retryable_status
from mule.values.provider import ProviderRejection, ProviderStatusRecorder
from mule.values.request import ProviderRequestOptions

OptionsT = TypeVar("OptionsT", bound=ProviderRequestOptions)


def observe_provider_status(options: OptionsT, recorder: ProviderStatusRecorder) -> OptionsT:
    """The options with a recorder that is told the status and headers of every answer to the request.

    >>> from mule.values.request import SimpleStreamOptions
    >>> recorder = ProviderStatusRecorder()
    >>> observe_provider_status(SimpleStreamOptions(), recorder).status_recorder is recorder
    True
    """
    return dataclasses.replace(options, status_recorder=recorder)


def is_retryable_provider_rejection(rejection: ProviderRejection) -> bool:
    """Whether the same request may succeed later.

    The header `x-should-retry` decides where there is one, then the status; but an account that is used
    up, and a context that is too long, do not mend by waiting.
    """
    if not is_retryable_status(rejection.status, rejection.headers):
        return False
    if any(name.lower() == "x-should-retry" for name in rejection.headers):
        return True
    return failure_of_rejection(rejection, "").ending not in ("quota", "context_overflow")
