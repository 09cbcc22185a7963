/**
 * The list of sentences. The tree of a sentence is drawn when it comes near the window.
 *
 * @typedef {object} SentenceRecord
 * @property {object} sentence
 * @property {number} position In the list, as it was filled, from 0.
 * @property {HTMLElement} article
 * @property {HTMLElement} box Where the tree is drawn.
 * @property {SVGSVGElement|null} tree
 * @property {number} errors Words with a wrong head or label.
 * @property {number} doubts How many heads or labels are expected to be wrong, by their probabilities.
 * @property {Set<number>} matches The words that meet the filters.
 */
const treeList = (() => {
  'use strict';

  const NEAR = '800px 0px';
  const HEADING_HEIGHT = 84;
  const numbers = new Intl.NumberFormat('en');

  /**
   * Add sentences to the end of a list.
   *
   * @param {number} [before] How many it has already.
   * @returns {SentenceRecord[]}
   */
  function fillList(list, sentences, before = 0) {
    const records = sentences.map((sentence, index) => recordOf(sentence, before + index));
    const byArticle = new Map(records.map((record) => [record.article, record]));
    list.append(...byArticle.keys());
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries.filter(({ isIntersecting }) => isIntersecting)) {
        draw(byArticle.get(entry.target));
        observer.unobserve(entry.target);
      }
    }, { rootMargin: NEAR });
    records.forEach(({ article }) => observer.observe(article));
    return records;
  }

  function recordOf(sentence, position) {
    const article = element('article', 'sentence');
    const box = element('div', 'tree-box');
    const errors = Object.values(sentence.gold ?? {}).filter(([, , error]) => error).length;
    const doubts = (sentence.probabilities ?? []).reduce((sum, probability) => sum + 1 - probability, 0);
    const height = Math.ceil(treeLayout.heightOfTree(sentence));
    article.tabIndex = -1;
    article.dataset.position = position;
    article.style.containIntrinsicSize = `auto 600px auto ${height + HEADING_HEIGHT}px`;
    article.setAttribute('aria-label', `Sentence ${sentence.id}`);
    box.dir = sentence.rightToLeft ? 'rtl' : 'ltr';
    box.style.minHeight = `${height}px`;
    article.append(headingOf(sentence, position, errors), textOf(sentence), box);
    return { sentence, position, article, box, tree: null, errors, doubts, matches: new Set() };
  }

  function headingOf(sentence, position, errors) {
    const heading = element('div', 'heading');
    heading.append(element('h2', '', sentence.id));
    if (sentence.line) {
      const place = `sentence ${numbers.format(position + 1)}, line ${numbers.format(sentence.line)}`;
      heading.append(element('span', 'quiet', place));
    }
    if (sentence.scores) {
      const { uas, las } = sentence.scores;
      const count = errors === 1 ? '1 error' : `${errors || 'no'} errors`;
      const text = `${errors ? '✗ ' : ''}${count} · UAS ${uas.toFixed(1)} · LAS ${las.toFixed(1)}`;
      heading.append(element('span', `scores quiet${errors ? ' has-errors' : ''}`, text));
    }
    return heading;
  }

  function textOf(sentence) {
    const text = element('p', 'text', sentence.text);
    text.dir = sentence.rightToLeft ? 'rtl' : 'auto';
    text.lang = '';
    return text;
  }

  function draw(record) {
    if (record.tree) {
      return;
    }
    record.tree = treeDrawing.drawTree(record.sentence);
    treeDrawing.markWords(record.tree, record.matches);
    record.box.replaceChildren(record.tree);
  }

  /** Show a sentence, and highlight words of it, or hide it if `matches` is null. */
  function update(record, matches) {
    record.article.hidden = matches === null;
    if (matches?.size || record.matches.size) {
      record.matches = matches ?? new Set();
      if (record.tree) {
        treeDrawing.markWords(record.tree, record.matches);
      }
    }
  }

  function element(name, className, text = '') {
    const made = document.createElement(name);
    made.className = className;
    made.textContent = text;
    return made;
  }

  return { fillList, draw, update };
})();
