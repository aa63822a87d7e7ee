"""Policy files: those of a server, with the files that they name, and those that are sent to it."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from surefoot._surefoot import Policy
from surefoot.client._messages import Answer, Call
from surefoot.client._server import segment
from surefoot.client._steps import Steps, Tries, persistent
from surefoot.errors import FileError

#: A policy file, or a policy.
PolicyLike = str | os.PathLike[str] | Policy
_KINDS = {"kernel": "features", "trees": "trees", "softmax": "softmax"}


def named_files(policy: bytes, place: str) -> list[str]:
    """The names of the files that a policy file names: its basis and its features."""
    try:
        size = int.from_bytes(policy[:8], "little")
        metadata: dict[str, str] = json.loads(policy[8 : 8 + size])["__metadata__"]
        features: dict[str, Any] = json.loads(metadata.get("features", "null")) or {}
        basis = json.loads(metadata.get("basis", "null"))
        found = [f"basis-{basis}"] if basis else []
        found += [f"{kind}-{features[part]['fingerprint']}" for part, kind in _KINDS.items() if features.get(part)]
        return [f"{name}.safetensors" for name in found]
    except (KeyError, TypeError, ValueError) as reason:
        raise FileError(f"{place}: should be a policy file: {reason!r}", place=place) from reason


def read_policy(path: str, name: str) -> Call[bytes]:
    """Reads a file of a policy."""
    return Call("GET", f"{path}/policies/{segment(name)}", lambda answer: answer.body)


def save_policy(path: str, fingerprint: str, folder: str | os.PathLike[str], patience: float) -> Steps[Path]:
    """Writes a policy file and those that it names to a folder; the policy comes last."""
    tries = Tries(patience)
    policy = yield from persistent(read_policy(path, fingerprint), tries)
    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    for name in named_files(policy, f"the policy {fingerprint}"):
        if not (into / name).exists():
            _write(into / name, (yield from persistent(read_policy(path, name), tries)))
    _write(into / f"{fingerprint}.safetensors", policy)
    return into / f"{fingerprint}.safetensors"


def _write(path: Path, content: bytes) -> None:
    """A file that is there whole, or not at all."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as reason:
        part.unlink(missing_ok=True)
        raise FileError(f"{path}: cannot be written: {reason}", place=str(path)) from reason


def policy_form(policy: PolicyLike) -> tuple[bytes, str]:
    """A form with a policy file and the files that it names, and its content type."""
    if isinstance(policy, Policy):
        with tempfile.TemporaryDirectory() as folder:
            policy.save(Path(folder) / "policy.safetensors")
            return policy_form(Path(folder) / "policy.safetensors")
    path = Path(policy)
    content = _read(path)
    boundary = secrets.token_hex(16)
    form = _part(boundary, "policy", path.name, content)
    for name in named_files(content, str(path)):
        # A file that is not here may be one that the loop has.
        if (path.parent / name).exists():
            form += _part(boundary, "file", name, _read(path.parent / name))
    return form + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as reason:
        raise FileError(f"{path}: cannot be read: {reason}", place=str(path)) from reason


def _part(boundary: str, name: str, file: str, content: bytes) -> bytes:
    file = file.replace("\\", "_").replace('"', "_")
    head = (
        f"--{boundary}\r\n"
        f'Content-Disposition: form-data; name="{name}"; filename="{file}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return head.encode() + content + b"\r\n"


def upload(path: str, policy: PolicyLike, *, repeatable: bool) -> Call[dict[str, Any]]:
    """Sends a policy file."""
    body, content_type = policy_form(policy)

    def read(answer: Answer) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(answer.body)
        return found

    return Call("POST", path, read, body, content_type, repeatable)
