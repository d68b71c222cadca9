"""A call of a chat-completions endpoint: the request, and the decoder for its answer."""

from __future__ import annotations

from typing import Any

from mule.adapters._stream import Prepared, ProviderStream
from mule.adapters.openai_completions.compat import endpoint_of
from mule.adapters.openai_completions.decode import Decoder
from mule.adapters.openai_completions.encode import encode
from mule.adapters.openai_completions.options import own_options
from mule.transcript.assemble import AnswerBuilder
from mule.values.messages import Context
from mule.values.model import Model
from mule.values.request import StreamOptions


def stream(model: Model[Any], context: Context, options: StreamOptions) -> ProviderStream:
    """Call the model. Nothing happens until the stream is read.

    Args:
        context: normalized: prompt and tools stand in system messages.
        options: the API's own, or neutral ones.
    """

    def prepare(builder: AnswerBuilder) -> Prepared:
        encoded = encode(model, context, own_options(model, context, options))
        decoder = Decoder(
            builder,
            model,
            endpoint_of(model),
            grammar_properties=encoded.grammar_properties,
            own_names=encoded.own_names,
        )
        return Prepared(encoded.request, decoder)

    return ProviderStream(model, options, prepare)
