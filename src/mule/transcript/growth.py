"""What did something that grows look like at an earlier moment?

Moments are revisions: one for each event of an answer. Pieces and values are kept with the revision from
which on they show, so an addition costs the same however much there is, and what stood at a revision
stands there for ever. For `mule.transcript.assemble`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, Final, Generic, TypeVar

from mule.values.jsontext import join_surrogates

C = TypeVar("C")

EXACT_LENGTH: Final = 32_768
"""Characters of a text up to which a reading `in_steps` is a reading of all of it."""
_STEPS: Final = 32
"""Beyond that it may lag behind by one such part, or reading at each revision would be quadratic."""


class Fields:
    """Values of named fields, as they stood at each revision."""

    __slots__ = ("_at", "_values")

    def __init__(self, first: Mapping[str, Any]) -> None:
        self._at = [0]
        self._values: list[Mapping[str, Any]] = [first]

    def tell(self, revision: int, fields: Mapping[str, Any]) -> None:
        """From this revision on, which is not out yet, these fields have these values."""
        values = {**self._values[-1], **fields}
        if self._at[-1] == revision:
            self._values[-1] = values
        else:
            self._at.append(revision)
            self._values.append(values)

    def at(self, revision: int) -> Mapping[str, Any]:
        """What they were then: the same object as long as nothing was told."""
        if self._at[-1] <= revision:
            return self._values[-1]
        return self._values[bisect_right(self._at, revision) - 1]

    def last(self) -> Mapping[str, Any]:
        """What they are."""
        return self._values[-1]


class Pieces:
    """Pieces of one text, each with the revision from which on it shows.

    To add one, append to both lists: this is done for every delta, so it must cost next to nothing.
    """

    __slots__ = ("_joined", "_joined_count", "_lengths", "revisions", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.revisions: list[int] = []
        self._joined = ""
        self._joined_count = 0
        self._lengths: list[int] = []

    def count_at(self, revision: int) -> int:
        """How many there were."""
        revisions = self.revisions
        if not revisions or revisions[-1] <= revision:
            return len(revisions)
        return bisect_right(revisions, revision)

    def first(self, count: int) -> str:
        """The first so many as one text, characters that were cut in two joined again."""
        known = self._joined_count
        if count != known:
            if count < known:
                self._joined, known = "", 0
            added = "".join(self.texts[known:count])
            joined = self._joined + added
            self._joined = joined if added.isascii() else join_surrogates(joined)
            self._joined_count = count
        return self._joined

    def all(self) -> str:
        """All of them as one text."""
        return self.first(len(self.texts))

    def in_steps(self, count: int) -> int:
        """How many of `count` pieces to read, so that a long text is not read anew for each of them."""
        lengths = self._lengths
        if len(lengths) < count:
            before = lengths[-1] if lengths else 0
            more = accumulate(map(len, self.texts[len(lengths) :]), initial=before)
            next(more)
            lengths.extend(more)
        length = lengths[count - 1] if count else 0
        if length <= EXACT_LENGTH:
            return count
        step = 1 << (length // _STEPS).bit_length() - 1
        return bisect_right(lengths, length - length % step, 0, count)


class Growth(Generic[C]):
    """A piece of content that grows until it has ended.

    Args:
        read: makes the content of a text and the fields told so far.
        in_steps: reading is dear, so a long text may be read a little short (`Pieces.in_steps`).
    """

    __slots__ = ("_end", "_in_steps", "_memo", "_read", "fields", "pieces")

    def __init__(
        self,
        read: Callable[[str, Mapping[str, Any]], C],
        fields: Mapping[str, Any],
        *,
        in_steps: bool = False,
    ) -> None:
        self.pieces = Pieces()
        self.fields = Fields(fields)
        self._read = read
        self._in_steps = in_steps
        self._memo: tuple[int, Mapping[str, Any], C] | None = None
        self._end: tuple[int, C] | None = None

    def end(self, revision: int, content: C) -> None:
        """From this revision on it is this."""
        self._end = revision, content

    @property
    def ended(self) -> C | None:
        """What it is, once it has ended."""
        return None if self._end is None else self._end[1]

    def at(self, revision: int) -> C:
        """What it was then."""
        if self._end is not None and self._end[0] <= revision:
            return self._end[1]
        count = self.pieces.count_at(revision)
        if self._in_steps:
            count = self.pieces.in_steps(count)
        fields = self.fields.at(revision)
        memo = self._memo
        if memo is not None and memo[0] == count and memo[1] is fields:
            return memo[2]
        content = self._read(self.pieces.first(count), fields)
        self._memo = count, fields, content
        return content
