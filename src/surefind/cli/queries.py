"""What a search is asked with: files, folders of images, an image on stdin."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from surefind.datasets.folder import find_images
from surefind.errors import InvalidFile
from surefind.images.decode import DEFAULT, ImageRejected, ImageSource, decode
from surefind.search.hits import SearchResult
from surefind.search.index import Index
from surefind.search.printable import printable

STDIN = "-"
AT_ONCE = 32  # queries encoded together


class Answer(NamedTuple):
    """A result, and the picture that asked."""

    result: SearchResult
    source: ImageSource | None


@dataclass
class Queries:
    """The queries of a command, read in order; what cannot be read is told and counted."""

    written: Sequence[str]
    unread: int = 0

    def one_by_one(self, index: Index, options: dict[str, Any]) -> Iterator[Answer]:
        waiting: list[tuple[str, ImageSource]] = []
        for query in self._sources():
            waiting.append(query)
            if len(waiting) == AT_ONCE:
                yield from self._answers(index, waiting, options)
                waiting = []
        yield from self._answers(index, waiting, options)

    def as_views(self, index: Index, options: dict[str, Any]) -> Iterator[Answer]:
        readable = [source for name, source in self._sources() if self._can_read(name, source)]
        if readable:
            yield Answer(index.search_views(readable, **options), None)

    def _answers(
        self, index: Index, some: list[tuple[str, ImageSource]], options: dict[str, Any]
    ) -> Iterator[Answer]:
        if not some:
            return
        try:
            results = index.search([source for _, source in some], **options)
        except ImageRejected as rejected:
            if len(some) == 1:
                self._pass_over(some[0][0], rejected.reason)
                return
            for one in some:  # which of them it was
                yield from self._answers(index, [one], options)
            return
        for (name, source), result in zip(some, results, strict=True):
            yield Answer(replace(result, query=name), source)

    def _sources(self) -> Iterator[tuple[str, ImageSource]]:
        for name in self.written:
            if name == STDIN:
                yield name, _stdin()
            elif _is_folder(name):
                try:
                    yield from ((str(Path(name, path)),) * 2 for path in find_images(Path(name)))
                except InvalidFile as error:
                    self._pass_over("", error.problem)
            else:
                yield name, name

    def _can_read(self, name: str, source: ImageSource) -> bool:
        try:
            decode(source)
        except ImageRejected as rejected:
            self._pass_over(name, rejected.reason)
            return False
        return True

    def _pass_over(self, name: str, reason: str) -> None:
        self.unread += 1
        complain(f"{name}: {reason}" if name else reason)


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # too long a name, or not to be looked at: decoding will say so
        return False


def _stdin() -> bytes:
    return sys.stdin.buffer.read(DEFAULT.max_bytes + 1)  # one more than is let in: refused later


def complain(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)
