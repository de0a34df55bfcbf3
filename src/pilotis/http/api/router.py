"""A trie of path segments: `:name` matches one segment, `*name` matches the rest of the path."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar
from urllib.parse import unquote

Target = TypeVar("Target")


class Match(NamedTuple, Generic[Target]):
    """What a path matches: the targets by method, and the values of the path's parameters."""

    targets: dict[str, Target]
    values: tuple[str, ...]


class _Node(Generic[Target]):
    __slots__ = ("children", "parameter", "rest", "targets")

    def __init__(self) -> None:
        self.children: dict[str, _Node[Target]] = {}
        self.parameter: _Node[Target] | None = None
        self.rest: dict[str, Target] = {}
        self.targets: dict[str, Target] = {}


class Router(Generic[Target]):
    """Finds the target of a method and a path. Fixed segments win over parameters, parameters over `*rest`."""

    def __init__(self) -> None:
        self._root: _Node[Target] = _Node()

    def add(self, method: str, path: str, target: Target) -> None:
        """Add a target; raises `ValueError` for a duplicate or a `*rest` that is not last."""
        node = self._root
        segments = path.split("/")[1:]
        for index, segment in enumerate(segments):
            if segment.startswith("*"):
                if index != len(segments) - 1:
                    raise ValueError(f"{path}: *{segment[1:]} must be the last segment.")
                return _put(node.rest, method, path, target)
            if segment.startswith(":"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.children.setdefault(segment, _Node())
        return _put(node.targets, method, path, target)

    def find(self, method: str, path: str, raw_path: bytes = b"") -> Match[Target] | None:
        """Return the match with the method; otherwise one whose `targets` are the allowed methods; otherwise None.

        `raw_path` is the path before percent-decoding: a slash that is encoded there does not separate segments, so a
        segment may be a URL.
        """
        if b"%2f" in raw_path or b"%2F" in raw_path:
            segments = [unquote(segment) for segment in raw_path.decode("latin-1").split("/")[1:]]
        else:
            segments = path.split("/")[1:]
        found: list[Match[Target]] = []
        if match := _descend(self._root, segments, 0, (), method, found):
            return match
        if not found:
            return None
        return Match({name: target for match in found for name, target in match.targets.items()}, ())


def _put(targets: dict[str, Target], method: str, path: str, target: Target) -> None:
    if method in targets:
        raise ValueError(f"{method} {path} is declared twice.")
    targets[method] = target


def _descend(
    node: _Node[Target],
    segments: list[str],
    index: int,
    values: tuple[str, ...],
    method: str,
    found: list[Match[Target]],
) -> Match[Target] | None:
    if index == len(segments):
        return _offer(node.targets, values, method, found)
    segment = segments[index]
    child = node.children.get(segment)
    if child and (match := _descend(child, segments, index + 1, values, method, found)):
        return match
    if node.parameter and segment:
        match = _descend(node.parameter, segments, index + 1, (*values, segment), method, found)
        if match:
            return match
    if node.rest and segment:
        return _offer(node.rest, (*values, "/".join(segments[index:])), method, found)
    return None


def _offer(
    targets: dict[str, Target], values: tuple[str, ...], method: str, found: list[Match[Target]]
) -> Match[Target] | None:
    if not targets:
        return None
    match = Match(targets, values)
    if method in targets:
        return match
    found.append(match)
    return None
