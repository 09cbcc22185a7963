"""Write docs/settings.md: the settings of the three kinds of config and of plugins, from their classes, and
those of the service, from its flags.

python scripts/write_settings.py            writes the page
python scripts/write_settings.py --check    exits with 1 if the page is out of date
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from parser.commands.serve_settings import CONFIG, PREFIX, flags
from parser.config.description import Setting, SettingsSection, sections
from parser.speed.measuring.cells import SpeedConfig
from parser.speed.tasks.discovery import find, installed
from parser.system.settings import Settings
from parser.training.config import Config
from parser.training.table import TableConfig

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
COMMANDS: dict[str, tuple[type[Settings], str]] = {
    "Training": (Config, "`stack-parser train CONFIG`, as in `configs/*.yaml`."),
    "Speed measurements": (SpeedConfig, "`stack-parser speed CONFIG`, as in `configs/speed/*.yaml`."),
    "Tables of training runs": (TableConfig, "`stack-parser table CONFIG`, as in `configs/tables/*.yaml`."),
}
INTRODUCTION = """\
# Settings

<!-- Written by scripts/write_settings.py from the classes that validate configs. Do not edit. -->

Every setting of every config: its type, its default and what it does. A config is a YAML file. To write your
own, copy [one](accuracy.md#configs) and change it. A config for training needs no more than
`treebank: {train: train.conllu, dev: dev.conllu}`, which trains a small parser on gold tags, without a
tokenizer. Unknown keys and values of the wrong type are refused,
with their line, as are numbers that YAML reads as other ones (`010` as 8, `1:30` as 90), environment
variables other than `${PARSER_DATA}`, and aliases that stand for more than 100,000 values.
`--set KEY=VALUE` of `train` and `speed` changes one setting, as in `--set training.batch_size=32`. A setting
without a default is required, or is a group of settings with its own table. `NAME` stands for any name."""
PLUGINS = """\
## Plugins

What `experiments.NAME.settings` and `learning.NAME.settings` of a speed measurement may hold, by the plugin.
`stack-parser plugins NAME` shows the same, also of a plugin of another package."""
SERVICE = f"""\
## The service

What `stack-parser serve` can be told. Each setting can be a flag (`--max-bytes 1000`), a variable of the
environment (`{PREFIX}MAX_BYTES=1000`), or a line of the YAML file that `--config` or
`{PREFIX}CONFIG` names (`max_bytes: 1000`). Flags take precedence over variables, and these over the
file. A list is a flag that is given several times, words with blanks between them as in a shell, or a list in
YAML. `--print-config` shows all settings and where each is from."""
OWN_PLUGINS = "parser.speed.tasks"


def page() -> str:
    parts = [INTRODUCTION]
    shown: dict[str, str] = {}
    for title, (settings, use) in COMMANDS.items():
        parts.append(f"## {title}\n\n{use}")
        for section in sections(settings):
            shown.setdefault(section.name, section.key)
            parts.append(_described(section))
    return "\n\n".join([*parts, PLUGINS, *_plugins(shown), SERVICE, _table_of_service()]) + "\n"


def _plugins(shown: Mapping[str, str]) -> Iterator[str]:
    """The plugins of this project. shown: keys by the names of classes that the page already describes."""
    for name, entry in installed().items():
        if not entry.value.startswith(f"{OWN_PLUGINS}."):
            continue
        plugin = find(name)
        first, *others = sections(plugin.Settings)
        yield f"### Plugin `{name}`\n\n{plugin.paper}.\n\n{_table(first)}"
        repeated: list[str] = []
        for section in others:
            if any(section.key.startswith(f"{key}.") for key in repeated):
                continue
            if section.name in shown:
                repeated.append(section.key)
            yield _of_plugin(name, section, shown.get(section.name))


def _of_plugin(name: str, section: SettingsSection, shown_as: str | None) -> str:
    """The settings of a plugin. shown_as: the key under which the page already describes the class."""
    what = f"`{section.key}` of `{name}`"
    if shown_as:
        return f"{what} has the settings of [`{shown_as}`](#{_anchor(shown_as)})."
    return f"{what}{section.text and ': '}{section.text}\n\n{_table(section)}"


def _anchor(key: str) -> str:
    """The anchor that GitHub generates for a title that is a key."""
    return key.lower().replace(".", "")


def _described(section: SettingsSection) -> str:
    if not section.key:
        return _table(section)
    of_kind = f" of the kind `{section.kind}`" if section.kind else ""
    return "\n\n".join(filter(None, [f"### `{section.key}`{of_kind}", section.text, _table(section)]))


def _table(section: SettingsSection) -> str:
    lines = ["| setting | type | default | |", "|---|---|---|---|"]
    for setting in section.settings:
        default = setting.default and f"`{setting.default}`"
        cells = f"`{setting.key}`", setting.type, default, setting.text
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def _table_of_service() -> str:
    settings = [
        Setting(
            key=name,
            type=_type_of_flag(action),
            default=action.default if isinstance(action.default, str) else json.dumps(action.default),
            text=str(action.help).partition(" (default: %(default)s")[0],
        )
        for name, action in flags().items()
        if name != CONFIG
    ]
    return _table(SettingsSection("", "", "", "", settings))


def _type_of_flag(action: argparse.Action) -> str:
    if action.choices:
        return " or ".join(f"`{choice}`" for choice in action.choices)
    if isinstance(action.default, list):
        return "list of strings"
    if action.type is Path:
        return "path"
    return "integer" if isinstance(action.default, int) else "string"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if it is out of date"
    )
    if not arguments.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        print(f"docs/{PAGE.name} is out of date: run `python scripts/write_settings.py`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
