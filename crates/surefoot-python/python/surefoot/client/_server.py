"""Where a server is, and what every request to it carries."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from surefoot._surefoot import __version__
from surefoot.errors import refused


@dataclass(frozen=True)
class Server:
    """An address with the headers of every request, and how its certificate is checked."""

    url: str
    host: str
    port: int
    #: The part of the address before the paths of the service, where a proxy has one.
    prefix: str
    headers: dict[str, str]
    #: ``None`` without TLS.
    tls: ssl.SSLContext | None

    @staticmethod
    def at(url: str, key: str | None, ca: str | os.PathLike[str] | None) -> Server:
        """Checks an address and a key."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or port == -1
        if wrong or parts.query or parts.fragment or parts.username:
            raise refused("url", "an address such as http://127.0.0.1:8080, without a key in it", repr(url))
        if key is not None and not (key and key.isascii() and key.isprintable() and " " not in key):
            # The key itself is a secret, and no part of a message.
            raise refused(
                "key", "letters, digits and signs of ASCII without spaces", f"a text of {len(key)} characters"
            )
        if ca is not None and parts.scheme != "https":
            raise refused("ca", "absent, unless the address begins with https", repr(os.fspath(ca)))
        headers = {"User-Agent": f"surefoot-python/{__version__}"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        secure = parts.scheme == "https"
        return Server(
            url=f"{parts.scheme}://{parts.netloc}",
            host=str(parts.hostname),
            port=port or (443 if secure else 80),
            prefix=parts.path.rstrip("/"),
            headers=headers,
            tls=ssl.create_default_context(cafile=ca) if secure else None,
        )


def seconds(name: str, value: float) -> float:
    """A time of the settings, checked."""
    if not value > 0:
        raise refused(name, "a number of seconds above 0", value)
    return float(value)


def segment(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="")
