"""The themes of hsconsole. Textual's own are in the palette too, so what the widgets need has defaults here."""

from __future__ import annotations

import dataclasses

from textual.theme import Theme

DARK = Theme(
    name="hsconsole-dark",
    primary="#6ea8fe",
    secondary="#4b6a96",
    accent="#7cc4ff",
    foreground="#d3d9e0",
    background="#0f1318",
    surface="#151a21",
    panel="#1c232c",
    success="#7bc98f",
    warning="#e6b450",
    error="#f0717a",
    variables={
        "track": "#2a333f",
        "bar": "#5b8fd6",
        "bar-other": "#56616f",
        "block-cursor-background": "#22354f",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-text-style": "none",
        "scrollbar": "#2a333f",
        "scrollbar-background": "#0f1318",
        "scrollbar-hover": "#3b4858",
        "scrollbar-active": "#4b6a96",
    },
)

LIGHT = Theme(
    name="hsconsole-light",
    primary="#2159b0",
    secondary="#7d95b8",
    accent="#0b57c2",
    foreground="#1f2630",
    background="#fbfbf9",
    surface="#f2f2ee",
    panel="#e7e8e4",
    success="#1a7a3c",
    warning="#8f5b00",
    error="#b3202c",
    dark=False,
    variables={
        "track": "#d5d8da",
        "bar": "#3f78c9",
        "bar-other": "#939ca6",
        "block-cursor-background": "#cfe0f7",
        "block-cursor-foreground": "#101418",
        "block-cursor-text-style": "none",
        "scrollbar": "#c9cdd1",
        "scrollbar-background": "#fbfbf9",
    },
)


# Without colour what is wrong must not be greyer than what is right.
MONO = dataclasses.replace(
    DARK, name="hsconsole-mono", accent="#ffffff", error="#ffffff", warning="#ffffff", success="#c0c0c0"
)


def defaults(dark: bool) -> dict[str, str]:
    """The variables of ours that a theme from elsewhere lacks."""
    ours = (DARK if dark else LIGHT).variables
    return {name: ours[name] for name in ("track", "bar", "bar-other")}
