"""How does an exception stand in a transcript?"""

from __future__ import annotations

from mule.values.base import Number
from mule.values.jsontext import JsonObject
from mule.values.messages import AssistantMessage, AssistantMessageDiagnostic, DiagnosticErrorInfo


def error_text(error: BaseException) -> str:
    """What an exception says, the name of its class where it says nothing."""
    return str(error) or type(error).__name__


def diagnostic_error(error: BaseException) -> DiagnosticErrorInfo:
    """An exception as data: class, text, and `code` where it has one that is a text or a number.

    Its stack stays out: a transcript travels, and the frames of a host's program are nobody else's.
    """
    info = DiagnosticErrorInfo(name=type(error).__name__, message=error_text(error))
    code = getattr(error, "code", None)
    if isinstance(code, str | int | float) and not isinstance(code, bool):
        return info.with_(code=code)
    return info


def make_diagnostic(
    type_: str, error: BaseException | None = None, details: JsonObject | None = None, *, now_ms: Number
) -> AssistantMessageDiagnostic:
    """Something worth knowing about how an answer came to be; `now_ms` is its time stamp."""
    changes: dict[str, object] = {"timestamp": now_ms}
    if error is not None:
        changes["error"] = diagnostic_error(error)
    if details is not None:
        changes["details"] = details
    return AssistantMessageDiagnostic(type=type_).with_(**changes)


def with_diagnostics(
    message: AssistantMessage, *diagnostics: AssistantMessageDiagnostic
) -> AssistantMessage:
    """The answer with these added after the diagnostics that it has."""
    if not diagnostics:
        return message
    return message.with_(diagnostics=(*(message.diagnostics or ()), *diagnostics))
