"""Everything that can go wrong with a run, as one closed union of facts, and the error that carries one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from mule.values.jsontext import JsonObject, JsonValue
from mule.values.messages import AssistantMessage
from mule.values.record import Record, written_by

if TYPE_CHECKING:
    from mule.values.run import MuleEvent, MuleIdentity, MuleRunOutcome

Ending: TypeAlias = Literal[
    "context_overflow",
    "content_filtered",
    "refused",
    "rate_limited",
    "overloaded",
    "quota",
    "authentication",
    "invalid_request",
    "server_error",
    "network",
    "stalled",
    "truncated",
    "malformed",
    "aborted",
    "unknown",
]
"""How an assistant call failed; the same words for every API."""

RejectionKind: TypeAlias = Literal[
    "unknown_tool", "invalid_arguments", "not_authorized", "needs_approval", "unavailable"
]
"""Why a call was refused before it ran."""


_NOT_FOR_JOURNALS = frozenset(
    {"set-cookie", "set-cookie2", "authorization", "proxy-authorization", "cookie"}
)


def _without_credentials(headers: Mapping[str, str]) -> JsonObject:
    return {name: text for name, text in headers.items() if name.lower() not in _NOT_FOR_JOURNALS}


@dataclass(frozen=True, slots=True)
class InvalidInput(Record):
    """The input cannot be run; nothing happened. `field` says where, `problem` what to change."""

    type: ClassVar[Literal["invalid_input"]] = "invalid_input"
    field: str
    problem: str


@dataclass(frozen=True, slots=True)
class NotSupported(Record):
    """This installation cannot do it. `install` is the line that changes that, where there is one."""

    type: ClassVar[Literal["not_supported"]] = "not_supported"
    what: str
    install: str | None = None


@dataclass(frozen=True, slots=True)
class ModelFailed(Record):
    """An assistant call failed.

    `message` is the failed answer with whatever had arrived; status, headers and `retry_after_ms` are
    the provider's, where there was a response. Headers that carry credentials are left out of the JSON.
    """

    type: ClassVar[Literal["model_failed"]] = "model_failed"
    ending: Ending
    message: AssistantMessage
    status: int | None = None
    headers: Mapping[str, str] | None = field(
        default=None, repr=False, metadata=written_by(_without_credentials)
    )
    retry_after_ms: float | None = None


@dataclass(frozen=True, slots=True)
class HookFailed(Record):
    """A hook failed or raised; its name. The cause is on the error."""

    type: ClassVar[Literal["hook_failed"]] = "hook_failed"
    hook: str


@dataclass(frozen=True, slots=True)
class ListenerFailed(Record):
    """The listener failed or raised on this event. The cause is on the error."""

    type: ClassVar[Literal["listener_failed"]] = "listener_failed"
    event: MuleEvent = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToolFailed(Record):
    """A tool ran and failed: what a tool's stream yields, and what the model is told."""

    type: ClassVar[Literal["tool_failed"]] = "tool_failed"
    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class Rejected(Record):
    """A tool call was refused before it ran. `text` is what the model is told."""

    type: ClassVar[Literal["rejected"]] = "rejected"
    kind: RejectionKind
    text: str
    details: JsonValue = None
    terminate: bool = False


@dataclass(frozen=True, slots=True)
class ResumeMismatch(Record):
    """What was handed back for a resume does not fit its transcript; nothing ran."""

    type: ClassVar[Literal["resume_mismatch"]] = "resume_mismatch"
    problem: str


@dataclass(frozen=True, slots=True)
class BudgetExceeded(Record):
    """The next step would break this limit; `used` is how much was used."""

    type: ClassVar[Literal["budget_exceeded"]] = "budget_exceeded"
    limit: str
    used: float


@dataclass(frozen=True, slots=True)
class SchemaMismatch(Record):
    """An answer does not fit its schema."""

    type: ClassVar[Literal["schema_mismatch"]] = "schema_mismatch"
    text: str
    problem: str


@dataclass(frozen=True, slots=True)
class Defect(Record):
    """A bug of ours. It is raised as the exception it is; this only stands in `run_end`."""

    type: ClassVar[Literal["defect"]] = "defect"
    text: str


Reason: TypeAlias = (
    InvalidInput
    | NotSupported
    | ModelFailed
    | HookFailed
    | ListenerFailed
    | ToolFailed
    | Rejected
    | ResumeMismatch
    | BudgetExceeded
    | SchemaMismatch
    | Defect
)
"""Why it went wrong: a closed union, so that `match` can be exhaustive. `type` is the tag."""


@dataclass(frozen=True, slots=True)
class _ErrorFacts(Record):
    reason: Reason
    at: MuleIdentity | None = None


class MuleError(Exception):
    """What went wrong, where, and how far the run had got.

    A value in a `Result`, and the exception that the awaited doors raise. Equal by `(reason, at)`.
    The exception behind it, where there is one, is its `__cause__`. JSON has the reason and the place.
    """

    def __init__(
        self,
        reason: Reason,
        at: MuleIdentity | None = None,
        outcome: MuleRunOutcome[Any] | None = None,
    ) -> None:
        super().__init__(reason, at)
        self.reason: Reason = reason
        self.at = at
        self.outcome = outcome

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MuleError):
            return NotImplemented
        return (self.reason, self.at) == (other.reason, other.at)

    def __hash__(self) -> int:
        return hash((type(self.reason), self.at))

    def __str__(self) -> str:
        return describe(self.reason)

    def __repr__(self) -> str:
        at = "" if self.at is None else f", at={self.at!r}"
        return f"{type(self).__name__}({self.reason!r}{at})"

    def to_json(self) -> JsonObject:
        """`{"reason", "at"}`: not the outcome, which `run_end` tells, nor the cause, an exception."""
        return _ErrorFacts(self.reason, self.at).to_json()

    @classmethod
    def from_json(cls, value: object) -> MuleError:
        """Read an error from its JSON; a `MuleToolRejection` where the reason is `Rejected`.

        Raises:
            JsonMismatch: (a ValueError) not the JSON of an error.
        """
        facts = _ErrorFacts.from_json(value)
        match facts.reason:
            case Rejected(kind, text, details, terminate):
                return MuleToolRejection(kind, text, details, terminate, facts.at)
            case reason:
                return MuleError(reason, facts.at)

    def because(self, cause: BaseException | None) -> MuleError:
        """This error with its cause set."""
        self.__cause__ = cause
        return self


class MuleToolRejection(MuleError):
    """A `MuleError` whose reason is `Rejected`: what `MuleTool.prepare` fails with."""

    def __init__(
        self,
        kind: RejectionKind,
        text: str,
        details: JsonValue = None,
        terminate: bool = False,
        at: MuleIdentity | None = None,
    ) -> None:
        super().__init__(Rejected(kind, text, details, terminate), at)
        # Narrower than in the base class, which is sound while nobody assigns it again.
        self.reason: Rejected  # pyright: ignore[reportIncompatibleVariableOverride]

    def __reduce__(self) -> tuple[Any, ...]:
        r = self.reason
        return type(self), (r.kind, r.text, r.details, r.terminate, self.at)


def describe(reason: Reason) -> str:
    """A reason in one sentence, for people."""
    match reason:
        case InvalidInput(field=name, problem=problem):
            return f"invalid input: {name}: {problem}"
        case NotSupported(what=what, install=install):
            return f"not supported: {what}" + (f" (to have it: {install})" if install else "")
        case ModelFailed(ending=ending, message=message):
            return f"the model call ended ({ending}): {message.error_message or 'no reason given'}"
        case HookFailed(hook=hook):
            return f"the hook {hook} failed"
        case ListenerFailed(event=event):
            return f"the listener failed on {event.type}"
        case ToolFailed(tool=tool, text=text):
            return f"the tool {tool} failed: {text}"
        case Rejected(kind=kind, text=text):
            return f"the tool call was rejected ({kind}): {text}"
        case ResumeMismatch(problem=problem):
            return f"the resume does not fit its transcript: {problem}"
        case BudgetExceeded(limit=limit, used=used):
            return f"the budget is used up: {limit} ({used:g} used)"
        case SchemaMismatch(problem=problem):
            return f"the answer does not fit its schema: {problem}"
        case Defect(text=text):
            return f"a defect of mule: {text}"
