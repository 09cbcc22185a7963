"""The settings of `serve`: from its flags, the environment, a file, or their defaults, in this order.

The flags define them: names, types, defaults and descriptions.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parser.commands.arguments import command_parser
from parser.system.console import quoted
from parser.system.settings import unknown_key

COMMAND = "serve"
PREFIX = "STACK_PARSER_SERVE_"
"""Begins the names of environment variables. It is not shorter because Kubernetes sets STACK_PARSER_PORT and
others if a service is called stack-parser."""
CONFIG, MODELS = "config", "models"
NO_SETTINGS = "help", "print_config"
"""Flags that only say what the command does."""
DEFAULT, FLAG = "default", "flag"


class ServeSetting(NamedTuple):
    value: Any
    source: str
    """Where the value is from: `default`, `flag`, the name of a variable, or file:line."""


Settled = Mapping[str, ServeSetting]
"""All settings by their names, such as `max_bytes`."""


def settle(arguments: Sequence[str], variables: Mapping[str, str]) -> Settled:
    """Return the settings. arguments: those after `serve`, which are valid. variables: of the environment.

    Raises ValueError for unknown names and for values that are not valid, and OSError.
    """
    actions = flags()
    defaults = {name: ServeSetting(action.default, DEFAULT) for name, action in actions.items()}
    of_variables = dict(_of_variables(variables, actions))
    given = {**of_variables, **_of_flags(arguments)}
    of_file = dict(_of_file(given[CONFIG].value, actions)) if CONFIG in given else {}
    return {**defaults, **of_file, **given}


def flags() -> dict[str, argparse.Action]:
    """Return the flags that are settings, and the models, by their names."""
    actions = command_parser(COMMAND)._actions
    return {action.dest: action for action in actions if action.dest not in NO_SETTINGS}


def options_of(settings: Settled) -> argparse.Namespace:
    """Return the settings as the options of a command. Its `arguments` lead to the same settings, without the
    environment and the file, which may change. Raises ValueError if there is no model.
    """
    options = argparse.Namespace(**{name: setting.value for name, setting in settings.items()})
    if not options.models:
        raise ValueError(
            f"{COMMAND} needs a model: name one, or set {MODELS} in the file of --{CONFIG}, or "
            f"{PREFIX}{MODELS.upper()}"
        )
    options.arguments = [COMMAND, *options.models]
    for name, (value, source) in settings.items():
        if source != DEFAULT and name not in (MODELS, CONFIG):
            values = value if isinstance(value, list) else [value]
            options.arguments += [f"--{name.replace('_', '-')}={one}" for one in values]
    return options


def as_yaml(settings: Settled) -> Iterator[str]:
    """Yield lines that say all settings, and where each is from; they can be a file of settings, too.

    Of tokens, there is only the name of their file.
    """
    for name, (value, source) in settings.items():
        if name != CONFIG:
            plain = str(value) if isinstance(value, Path) else value
            yield f"{name}: {json.dumps(plain, ensure_ascii=False)}  # {source}"


def _of_flags(arguments: Sequence[str]) -> dict[str, ServeSetting]:
    command = command_parser(COMMAND)
    for action in command._actions:
        action.default = argparse.SUPPRESS
    given = vars(command.parse_args(arguments))
    return {name: ServeSetting(given[name], FLAG) for name in flags() if name in given}


def _of_variables(
    variables: Mapping[str, str], actions: Mapping[str, argparse.Action]
) -> Iterator[tuple[str, ServeSetting]]:
    known = {PREFIX + name.upper(): name for name in actions}
    for variable in sorted(variables):
        if not variable.startswith(PREFIX):
            continue
        if variable not in known:
            raise ValueError(f"{variable}: {unknown_key(variable, known)}")
        action, text = actions[known[variable]], variables[variable]
        try:
            value = shlex.split(text) if _is_list(action) else _value(action, text)
        except ValueError as error:
            raise ValueError(f"{variable}: {error}") from None
        yield known[variable], ServeSetting(value, variable)


def _of_file(path: Path, actions: Mapping[str, argparse.Action]) -> Iterator[tuple[str, ServeSetting]]:
    from parser.config.file import content_and_locations

    content, locations = content_and_locations(path)
    known = [name for name in actions if name != CONFIG]
    for name, given in content.items():
        where = locations[str(name),]
        if name not in known:
            raise ValueError(f"{where}: {name}: {unknown_key(str(name), known)}")
        action = actions[name]
        values = given if isinstance(given, list) and _is_list(action) else [given]
        if values == [None]:
            continue
        if any(isinstance(value, bool) or not isinstance(value, str | int | float) for value in values):
            what = "a text, or a list of texts" if _is_list(action) else "a number or a text"
            raise ValueError(f"{where}: {name}: should be {what}; put a text such as no or off into quotes")
        try:
            read = [_value(action, str(value)) for value in values]
        except ValueError as error:
            raise ValueError(f"{where}: {name}: {error}") from None
        yield name, ServeSetting(read if _is_list(action) else read[0], where)


def _is_list(action: argparse.Action) -> bool:
    return isinstance(action.default, list)


def _value(action: argparse.Action, text: str) -> Any:
    """Return the value of a text, as of a flag. Raises ValueError."""
    kind = action.type
    try:
        value = kind(text) if callable(kind) else text
    except argparse.ArgumentTypeError as error:
        raise ValueError(str(error)) from None
    if action.choices and value not in action.choices:
        raise ValueError(f"{quoted(text)} is not one of {', '.join(map(str, action.choices))}")
    return value
