/**
 * Where the words and arcs of a tree stand, in pixels. Nothing is drawn here.
 *
 * A sentence is what `tree_data` of trees_page.py returns, or `sentenceOf` of conllu_reading.js. Words have numbers from 1; ROOT is 0.
 *
 * @typedef {object} Arc
 * @property {number} head
 * @property {number} dependent
 * @property {string} label
 * @property {'plain'|'right'|'wrong'|'mislabelled'|'missed'|'enhanced'} kind
 * @property {string} [goldLabel] Of a mislabelled arc.
 * @property {number} [probability] From 0 to 1.
 * @property {number} height Above all shorter arcs below it, from 1.
 */
const treeLayout = (() => {
  'use strict';

  const DOUBTFUL = 0.8;
  const LEVEL = 25;
  const GAP = 18;
  const MARGIN = 14;
  const SPOT = 8;
  const LABEL_ROOM = 13;
  const WORD_LINE = 21;
  const TAG_LINE = 17;
  const TOKEN_LINE = 26;
  const BELOW_WORDS = 10;

  /** The arcs above the words, as parsed, and those below: of gold, which the parser missed, and enhanced dependencies. */
  function arcsOf(sentence) {
    const above = [];
    const below = [];
    sentence.heads.forEach((head, index) => {
      const dependent = index + 1;
      const [goldHead, goldLabel, error] = sentence.gold?.[dependent] ?? [];
      const right = sentence.gold ? 'right' : 'plain';
      const kind = { head: 'wrong', label: 'mislabelled' }[error] ?? right;
      const arc = { head, dependent, label: sentence.labels[index], kind, probability: sentence.probabilities?.[index] };
      above.push(kind === 'mislabelled' ? { ...arc, goldLabel } : arc);
      if (kind === 'wrong') {
        below.push({ head: goldHead, dependent, label: goldLabel, kind: 'missed' });
      }
    });
    return { above: withHeights(above), below: withHeights([...below, ...enhancedArcs(sentence)]) };
  }

  /** The heads and labels in DEPS of a word; heads are numbers, or strings such as 8.1 for empty nodes. */
  function edgesTo(sentence, dependent) {
    const edges = (sentence.deps?.[dependent - 1] ?? '').split('|').map((edge) => /^(\d+(?:\.\d+)?):(.+)$/.exec(edge));
    return edges.filter(Boolean).map(([, head, label]) => ({ head: head.includes('.') ? head : Number(head), label }));
  }

  /** Enhanced dependencies from other words than the head in the tree. */
  function enhancedArcs({ heads, ...sentence }) {
    const isDrawn = (head, dependent) => Number.isInteger(head) && head <= heads.length
      && head !== heads[dependent - 1] && head !== dependent;
    return heads.flatMap((_, index) => edgesTo(sentence, index + 1)
      .filter(({ head }) => isDrawn(head, index + 1))
      .map((edge) => ({ ...edge, dependent: index + 1, kind: 'enhanced' })));
  }

  const isBelow = ({ kind }) => kind === 'missed' || kind === 'enhanced';

  /** Arcs from ROOT are as high as the highest of the others, and one level more. */
  function withHeights(arcs) {
    const reached = [];
    const bySpan = arcs.filter((arc) => arc.head).sort((a, b) => span(a) - span(b) || first(a) - first(b));
    for (const arc of bySpan) {
      let highest = 0;
      for (let gap = first(arc); gap < last(arc); gap += 1) {
        highest = Math.max(highest, reached[gap] ?? 0);
      }
      arc.height = highest + 1;
      for (let gap = first(arc); gap < last(arc); gap += 1) {
        reached[gap] = arc.height;
      }
    }
    const top = heightOf(bySpan) + 1;
    arcs.filter((arc) => !arc.head).forEach((arc) => { arc.height = top; });
    return arcs;
  }

  const first = (arc) => Math.min(arc.head, arc.dependent);
  const last = (arc) => Math.max(arc.head, arc.dependent);
  const span = (arc) => last(arc) - first(arc);
  const heightOf = (arcs) => arcs.reduce((highest, arc) => Math.max(highest, arc.height), 0);

  /** The lines of a tree from top to bottom: their distances from the top edge. */
  function rowsOf(sentence, { above, below }) {
    const ground = MARGIN + LEVEL * heightOf(above);
    const words = ground + WORD_LINE;
    const tags = sentence.upos ? words + TAG_LINE : words;
    const tokens = sentence.tokens ? tags + TOKEN_LINE : tags;
    const cellar = tokens + BELOW_WORDS;
    const bottom = below.length ? cellar + LEVEL * heightOf(below) + MARGIN : cellar + MARGIN / 2;
    return { ground, words, tags, tokens, cellar, bottom };
  }

  /** The height of the drawing of a sentence. */
  function heightOfTree(sentence) {
    return rowsOf(sentence, arcsOf(sentence)).bottom;
  }

  /** Whether an arc is less probable than is drawn as if it were certain. */
  const isDoubtful = ({ probability }) => probability < DOUBTFUL;

  /** What is written at an arc: its own label, and what gold has instead. */
  function labelParts(arc) {
    const isWrong = arc.kind === 'wrong' || arc.kind === 'mislabelled';
    const named = isDoubtful(arc) ? `${arc.label} ?` : arc.label;
    const own = isWrong ? `✗ ${named}` : named;
    return { own, gold: arc.goldLabel === undefined ? '' : `gold: ${arc.goldLabel}` };
  }

  function labelWidth(arc, measure) {
    const { own, gold } = labelParts(arc);
    return measure(gold ? `${own} ${gold}` : own, 'label');
  }

  /**
   * Where arcs meet their words: at each word they stand beside each other, short ones outside.
   * Sets `headOffset` and `dependentOffset`, and returns the number of spots by word.
   */
  function spread(arcs, words) {
    const ends = Array.from({ length: words + 1 }, () => []);
    for (const arc of arcs) {
      if (arc.head) {
        ends[arc.head].push({ arc, name: 'headOffset', side: Math.sign(arc.dependent - arc.head) });
      }
      ends[arc.dependent].push({ arc, name: 'dependentOffset', side: Math.sign(arc.head && arc.head - arc.dependent) });
    }
    return ends.map((atWord) => {
      const order = ({ side, arc }) => side / arc.height;
      atWord.sort((a, b) => order(a) - order(b));
      atWord.forEach(({ arc, name }, place) => { arc[name] = SPOT * (place - (atWord.length - 1) / 2); });
      return atWord.length;
    });
  }

  /** The half widths of the columns of words, index 0 for word 1. */
  function halfWidths(sentence, arcs, spots, measure) {
    const halves = sentence.forms.map((form, index) => Math.max(
      measure(form, 'word'),
      sentence.upos ? measure(sentence.upos[index], 'tag') : 0,
      SPOT * Math.max(spots.above[index + 1], spots.below[index + 1]),
    ) / 2);
    for (const arc of arcs.filter(({ head }) => !head)) {
      const index = arc.dependent - 1;
      const reach = Math.abs(arc.dependentOffset) + labelWidth(arc, measure) / 2;
      halves[index] = Math.max(halves[index], reach);
    }
    return halves;
  }

  /** Least distances between two words, by the second one, so that labels fit between the ends of their arcs. */
  function distances(sentence, arcs, halves, measure) {
    const byLast = sentence.forms.map(() => []);
    for (const arc of arcs.filter(({ head }) => head)) {
      const fromHead = arc.head < arc.dependent;
      const start = fromHead ? arc.headOffset : arc.dependentOffset;
      const end = fromHead ? arc.dependentOffset : arc.headOffset;
      const least = labelWidth(arc, measure) + 2 * LABEL_ROOM + start - end;
      byLast[last(arc) - 1].push({ from: first(arc) - 1, least });
    }
    for (const [from, to, form] of sentence.tokens ?? []) {
      const least = measure(form, 'word') - halves[from - 1] - halves[to - 1];
      byLast[to - 1].push({ from: from - 1, least });
    }
    return byLast;
  }

  /**
   * The middles of the words and the width of the drawing, for a sentence from left to right.
   *
   * @param {(text: string, kind: 'word'|'tag'|'label') => number} measure
   */
  function columnsOf(sentence, { above, below }, measure) {
    const words = sentence.forms.length;
    const spots = { above: spread(above, words), below: spread(below, words) };
    const arcs = [...above, ...below];
    const halves = halfWidths(sentence, arcs, spots, measure);
    const byLast = distances(sentence, arcs, halves, measure);
    const middles = [];
    halves.forEach((half, index) => {
      let x = index ? middles[index - 1] + halves[index - 1] + GAP + half : MARGIN + half;
      for (const { from, least } of byLast[index]) {
        x = Math.max(x, (middles[from] ?? 0) + least);
      }
      middles.push(x);
    });
    return { middles, halves, width: middles[words - 1] + halves[words - 1] + MARGIN };
  }

  return { LEVEL, arcsOf, edgesTo, isBelow, rowsOf, heightOfTree, isDoubtful, labelParts, labelWidth, columnsOf };
})();
