/** A box beside a word, with all that is known of it. One word has it at a time. */
const wordBox = (() => {
  'use strict';

  const HIDE_AFTER = 250;
  const DISTANCE = 6;
  let shown = null;
  let timer = 0;
  const box = () => document.getElementById('word-box');

  function show(record, number) {
    keep();
    if (shown?.record === record && shown.number === number) {
      return;
    }
    hide();
    shown = { record, number, element: treeDrawing.chooseWord(record.tree, number) };
    box().replaceChildren(...content(record.sentence, number));
    box().hidden = false;
    place();
  }

  /** Returns whether there was something to hide. */
  function hide() {
    keep();
    if (!shown) {
      return false;
    }
    treeDrawing.chooseWord(shown.record.tree, null);
    box().hidden = true;
    box().replaceChildren();
    shown = null;
    return true;
  }

  /** Hide it in a moment, unless the pointer reaches the box or the word again. */
  function hideSoon() {
    keep();
    timer = setTimeout(hide, HIDE_AFTER);
  }

  function keep() {
    clearTimeout(timer);
  }

  /** Below the word or, where there is no room, above it. */
  function place() {
    if (!shown) {
      return;
    }
    const word = shown.element.getBoundingClientRect();
    const { width, height } = box().getBoundingClientRect();
    const view = document.documentElement;
    const isBelow = word.bottom + DISTANCE + height <= view.clientHeight || word.top < height + DISTANCE;
    const top = isBelow ? word.bottom + DISTANCE : word.top - DISTANCE - height;
    const left = Math.max(DISTANCE, Math.min(word.left, view.clientWidth - width - DISTANCE));
    box().style.top = `${top + scrollY}px`;
    box().style.left = `${left + scrollX}px`;
  }

  function content(sentence, number) {
    const title = document.createElement('p');
    title.textContent = sentence.forms[number - 1];
    const list = document.createElement('dl');
    for (const [name, value] of facts(sentence, number)) {
      const term = document.createElement('dt');
      const text = document.createElement('dd');
      term.textContent = name;
      text.textContent = value;
      list.append(term, text);
    }
    return [title, list];
  }

  /** Names and values, without those that are empty. */
  function facts(sentence, number) {
    const of = (column) => sentence[column]?.[number - 1] ?? '_';
    const name = (word) => (word ? sentence.forms[word - 1] : 'ROOT');
    const [head, label] = sentence.gold?.[number] ?? [];
    const enhanced = treeLayout.edgesTo(sentence, number)
      .map((edge) => `${edge.label} of ${name(edge.head) ?? edge.head}`).join(', ');
    return [
      ['lemma', of('lemmas')],
      ['UPOS', of('upos')],
      ['XPOS', of('xpos')],
      ['features', of('feats').replaceAll('|', ', ')],
      ['arc', `${of('labels')} of ${name(of('heads'))}`],
      ['enhanced', enhanced || '_'],
      ['probability', shareOf(sentence.probabilities?.[number - 1])],
      ['gold', head === undefined ? '_' : `${label} of ${name(head)}`],
    ].filter(([, value]) => value !== '_');
  }

  const shareOf = (probability) => (probability === undefined ? '_' : `${(100 * probability).toFixed(1)} %`);

  /** Show it for the words that the pointer reaches. recordAt: gives the sentence of an element. */
  function follow(list, recordAt) {
    list.addEventListener('pointerover', ({ target }) => {
      const word = target.closest('.word');
      if (word) {
        show(recordAt(word), Number(word.dataset.word));
      } else {
        hideSoon();
      }
    });
    list.addEventListener('pointerleave', hideSoon);
    list.addEventListener('scroll', place, { capture: true });
    box().addEventListener('pointerenter', keep);
    box().addEventListener('pointerleave', hideSoon);
    addEventListener('resize', place);
  }

  return { show, hide, place, follow, shown: () => shown };
})();
