/**
 * Which sentences are shown: those with a word that meets all conditions at once.
 *
 * @typedef {object} Filter
 * @property {string} word Part of a form.
 * @property {string} upos
 * @property {string} label Of the arc to the word, as parsed or in gold; it includes its subtypes.
 * @property {''|string} confidence The arc to the word is less probable than this many percent.
 * @property {''|'any'|'head'|'label'|'none'} error none: the sentence has no error.
 */
const treeFilter = (() => {
  'use strict';

  const folded = (text) => text.normalize('NFC').toLowerCase();

  /** Forms in which words are looked for, made when they are first needed. */
  function foldedForms(record) {
    record.folded ??= record.sentence.forms.map(folded);
    return record.folded;
  }

  /**
   * The words of a sentence that meet all conditions, no words if there is no condition on words, and null if
   * the sentence is not to be shown.
   *
   * @param {Filter} filter
   * @returns {Set<number>|null}
   */
  function matchesOf(record, filter) {
    if (filter.error === 'none' && record.errors) {
      return null;
    }
    const conditions = conditionsOf(record, filter);
    if (!conditions.length) {
      return new Set();
    }
    const numbers = record.sentence.forms.map((_, index) => index + 1);
    const matches = numbers.filter((number) => conditions.every((meets) => meets(number)));
    return matches.length ? new Set(matches) : null;
  }

  function conditionsOf(record, { word, upos, label, confidence, error }) {
    const { sentence } = record;
    const conditions = [];
    if (word) {
      const part = folded(word);
      const forms = foldedForms(record);
      conditions.push((number) => forms[number - 1].includes(part));
    }
    if (upos) {
      conditions.push((number) => sentence.upos?.[number - 1] === upos);
    }
    if (label) {
      conditions.push((number) => labelsOf(sentence, number).some((one) => isKindOf(one, label)));
    }
    if (confidence) {
      conditions.push((number) => sentence.probabilities?.[number - 1] < Number(confidence) / 100);
    }
    if (error && error !== 'none') {
      conditions.push((number) => hasError(sentence, number, error));
    }
    return conditions;
  }

  function labelsOf(sentence, number) {
    const gold = sentence.gold?.[number];
    return gold ? [sentence.labels[number - 1], gold[1]] : [sentence.labels[number - 1]];
  }

  const isKindOf = (label, wanted) => label === wanted || label.startsWith(`${wanted}:`);

  function hasError(sentence, number, error) {
    const own = sentence.gold?.[number]?.[2];
    return error === 'any' ? Boolean(own) : own === error;
  }

  /** All tags and labels of sentences, in the order of the alphabet. */
  function valuesOf(sentences) {
    const upos = new Set(sentences.flatMap((sentence) => sentence.upos ?? []));
    const labels = new Set(sentences.flatMap((sentence) => [
      ...sentence.labels,
      ...Object.values(sentence.gold ?? {}).map(([, label]) => label),
    ]));
    return { upos: [...upos].sort(), label: [...labels].sort() };
  }

  return { matchesOf, valuesOf };
})();
