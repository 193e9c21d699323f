"""A person's own Home Assistant: read as a home, from its folder or while it runs, and rules written as automations.

    from fedrule.homeassistant import read_folder, read_home, read_live

    home = read_home(read_folder("/config"))                                # or
    home = read_home(read_live("http://homeassistant.local:8123", token))
    fedrule.Recommender.load("model.safetensors").recommend(home.request(), k=10)
    AutomationWriter(home).write(rule, text=sentence, why=reason)           # a WrittenAutomation, or why not

`Installation` is what was read, `InstalledHome` its devices and rules in the vocabulary of the data set
`home-assistant`. Both readers give the same home for the same installation. Only `install` writes to a server. Imports
are resolved on first use: PyYAML and websocket-client are of the extra `hass`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from datasets.common.errors import DataError, install_hint

if TYPE_CHECKING:
    from fedrule.homeassistant.home import HomeDevice, InstalledHome, read_home
    from fedrule.homeassistant.installation import Automation, Entity, Installation, Problem
    from fedrule.homeassistant.readers.folder import read_folder
    from fedrule.homeassistant.readers.live import read_live
    from fedrule.homeassistant.translation.rules import AutomationRule
    from fedrule.homeassistant.writing.automation import AutomationWriter, NotWritable, WrittenAutomation, to_yaml
    from fedrule.homeassistant.writing.install import Installed, install

__all__ = [
    "Automation",
    "AutomationRule",
    "AutomationWriter",
    "Entity",
    "HomeDevice",
    "Installation",
    "Installed",
    "InstalledHome",
    "NotWritable",
    "Problem",
    "WrittenAutomation",
    "install",
    "read_folder",
    "read_home",
    "read_live",
    "to_yaml",
]

_MODULES = {
    "home": ("HomeDevice", "InstalledHome", "read_home"),
    "installation": ("Automation", "Entity", "Installation", "Problem"),
    "readers.folder": ("read_folder",),
    "readers.live": ("read_live",),
    "translation.rules": ("AutomationRule",),
    "writing.automation": ("AutomationWriter", "NotWritable", "WrittenAutomation", "to_yaml"),
    "writing.install": ("Installed", "install"),
}


def __getattr__(name: str) -> object:
    """Import on first use."""
    module = next((module for module, exported in _MODULES.items() if name in exported), "")
    if not module:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("yaml", "websocket"):
            raise
        raise DataError(f"reading a Home Assistant needs {install_hint('hass')}") from None
