"""The BiLSTM tagger that reads rare words by their characters (Neubig et al. 2017)."""

from __future__ import annotations

from pydantic import Field

from parser.speed.tasks.plugin import Plugin
from parser.speed.tasks.taggers.bilstm_tagger_plugin import BiLSTMTagger, BiLSTMTaggerSettings


class BiLSTMCharTaggerSettings(BiLSTMTaggerSettings):
    characters: bool = True
    word_size: int = Field(256, gt=0, multiple_of=2)
    """Size of a word's vector. Each direction of the character BiLSTM provides half of it."""


class BiLSTMCharTagger(BiLSTMTagger):
    name = "bilstm_char_tagger"
    paper = "Neubig et al. 2017, Table 1 (BiLSTM w/ char)"
    Settings: type[BiLSTMTaggerSettings] = BiLSTMCharTaggerSettings


PLUGIN: type[Plugin[BiLSTMTaggerSettings]] = BiLSTMCharTagger
