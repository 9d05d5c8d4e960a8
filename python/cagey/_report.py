"""What the library tells about models: text for people, numbers for programs, figures for notebooks."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any


class Report(dict[str, Any]):
    """A dict of numbers whose text is the report that the command prints."""

    def __init__(self, text: str, values: dict[str, Any] | None) -> None:
        super().__init__(values or {})
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


class Figure:
    """A figure as SVG, which a notebook shows."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str) -> None:
        """Write the SVG."""
        Path(path).write_text(self.svg)
