/** CoNLL-U as the service writes it, read as sentences that tree_drawing.js draws. */
const conlluReading = (() => {
  'use strict';

  const BLANK = '_';
  const COLUMNS = { lemmas: 2, upos: 3, xpos: 4, feats: 5, deps: 8 };
  const [ID, FORM, HEAD, LABEL, MISC] = [0, 1, 6, 7, 9];
  const PROBABILITY = /(?:^|\|)ArcProbability=([\d.]+)/;

  /**
   * @param {string} block The lines of a sentence.
   * @param {number} number Of the sentence, from 1.
   */
  function sentenceOf(block, number) {
    const lines = block.split('\n');
    const rows = lines.filter((line) => line && !line.startsWith('#')).map((line) => line.split('\t'));
    const words = rows.filter(([id]) => /^\d+$/.test(id));
    const column = (place) => words.map((row) => row[place]);
    const forms = column(FORM);
    const sentence = {
      id: commentOf(lines, 'sent_id') ?? `#${number}`,
      text: commentOf(lines, 'text') ?? forms.join(' '),
      forms,
      heads: column(HEAD).map(Number),
      labels: column(LABEL),
      rightToLeft: isRightToLeft(forms),
    };
    for (const [name, place] of Object.entries(COLUMNS)) {
      if (column(place).some((value) => value !== BLANK)) {
        sentence[name] = column(place);
      }
    }
    const probabilities = column(MISC).map((value) => PROBABILITY.exec(value)?.[1]);
    if (probabilities.every((value) => value !== undefined)) {
      sentence.probabilities = probabilities.map(Number);
    }
    const tokens = rows.filter(([id]) => id.includes('-'));
    if (tokens.length) {
      sentence.tokens = tokens.map((row) => [...row[ID].split('-').map(Number), row[FORM]]);
    }
    return sentence;
  }

  /** The value of a comment such as `# text = Cats sleep.` */
  function commentOf(lines, key) {
    const start = `# ${key} = `;
    return lines.find((line) => line.startsWith(start))?.slice(start.length);
  }

  /** By the first letter that has a direction. */
  function isRightToLeft(forms) {
    const probe = document.createElement('p');
    probe.dir = 'auto';
    probe.textContent = forms.join(' ');
    return probe.matches(':dir(rtl)');
  }

  return { sentenceOf };
})();
