/**
 * Trees as SVG. Colours and lines are those of tree.css.
 *
 * `drawTree(sentence)` draws what tree_layout.js describes. Words are elements with the class `word`
 * and `data-word`; arcs have `data-head` and `data-dependent`.
 */
const treeDrawing = (() => {
  'use strict';

  const NAMESPACE = 'http://www.w3.org/2000/svg';
  const ARROW = 7;
  const RADIUS = 9;
  const LABEL_DROP = 4;
  const LABEL_REACH = 120;
  const ROOT_GAP = 7;
  const NO_BREAK = '\u00a0';
  const SIZES = { word: 15, tag: 10.5, label: 12 };
  const KINDS = {
    right: 'right arc',
    wrong: 'wrong head',
    mislabelled: 'right head, wrong label',
    missed: 'gold arc that is missed',
    doubtful: 'doubtful arc: less probable than 80 %',
    enhanced: 'enhanced dependency from another head',
  };
  let pen = null;

  /** @returns {SVGElement} An element with attributes and children, which may be text. */
  function svg(name, attributes = {}, children = []) {
    const element = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) {
      element.setAttribute(key, typeof value === 'number' ? Math.round(value * 10) / 10 : value);
    }
    element.append(...children);
    return element;
  }

  /** The width of a text in the font of the page. */
  function measure(text, kind) {
    if (!pen) {
      pen = document.createElement('canvas').getContext('2d');
      pen.family = getComputedStyle(document.body).fontFamily;
    }
    pen.font = `${kind === 'label' ? '600 ' : ''}${SIZES[kind]}px ${pen.family}`;
    return pen.measureText(text).width;
  }

  /**
   * The picture of a tree.
   *
   * @param {object} sentence
   * @param {{describe?: boolean}} [options] describe: whether screen readers are told of all arcs.
   * @returns {SVGSVGElement}
   */
  function drawTree(sentence, { describe = true } = {}) {
    const arcs = treeLayout.arcsOf(sentence);
    const rows = treeLayout.rowsOf(sentence, arcs);
    const columns = treeLayout.columnsOf(sentence, arcs, measure);
    const place = (x) => (sentence.rightToLeft ? columns.width - x : x);
    const plan = { ...rows, ...columns, place };
    const drawn = [...arcs.above, ...arcs.below].map((arc) => ({ arc, ...ends(arc, plan) }));
    return svg('svg', {
      class: 'tree',
      width: columns.width,
      height: rows.bottom,
      viewBox: `0 0 ${Math.ceil(columns.width)} ${Math.ceil(rows.bottom)}`,
      role: 'img',
      'aria-label': describe ? description(sentence) : `Tree of ${sentence.id}`,
    }, [
      ...sentence.forms.map((_, index) => drawWord(sentence, index, plan)),
      ...(sentence.tokens ?? []).map((token) => drawToken(token, plan)),
      ...drawn.map((one) => drawArc(one)),
      ...drawn.map((one) => drawLabel(one)),
    ]);
  }

  /** A label stands in a gap of its arc, in the middle or, of a long arc, near the dependent. */
  function labelPlace(arc, start, end) {
    const middle = end - Math.sign(end - start) * Math.min(Math.abs(end - start) / 2, LABEL_REACH);
    const width = treeLayout.labelWidth(arc, measure);
    return { middle, gap: width ? width / 2 + LABEL_DROP : 0 };
  }

  /** Where an arc begins and ends, how high it is, and where its label stands. */
  function ends(arc, { middles, ground, cellar, place }) {
    const isBelow = treeLayout.isBelow(arc);
    const base = isBelow ? cellar : ground;
    const level = base + (isBelow ? 1 : -1) * treeLayout.LEVEL * arc.height;
    const end = place(middles[arc.dependent - 1] + arc.dependentOffset);
    const start = arc.head ? place(middles[arc.head - 1] + arc.headOffset) : end;
    return { start, end, base, level, up: isBelow ? -1 : 1, ...labelPlace(arc, start, end) };
  }

  function drawArc({ arc, base, up, ...shape }) {
    const tip = base - up * (ARROW - 1);
    const line = arc.head ? bow({ base, tip, up, ...shape }) : `M${shape.end} ${shape.level + up * ROOT_GAP}V${tip}`;
    const drawn = svg('g', { class: `arc ${arc.kind}`, 'data-head': arc.head, 'data-dependent': arc.dependent }, [
      svg('path', { class: 'line', d: line }),
      arrow(arc.kind, shape.end, base, up),
    ]);
    if (arc.probability !== undefined) {
      drawn.classList.add('weighted');
      drawn.classList.toggle('doubtful', treeLayout.isDoubtful(arc));
      drawn.style.setProperty('--probability', arc.probability);
    }
    return drawn;
  }

  /** Two strokes from the label, to the head and to the dependent, so that dashes are whole beside it. */
  function bow({ start, end, base, level, tip, up, middle, gap }) {
    const side = Math.sign(end - start);
    const radius = Math.min(RADIUS, Math.abs(end - start) / 2);
    const stroke = (direction, x, foot) => `M${middle + direction * gap} ${level}H${x - direction * radius}`
      + `Q${x} ${level} ${x} ${level + up * radius}V${foot}`;
    return stroke(-side, start, base) + stroke(side, end, tip);
  }

  /** Filled for right heads, hollow for wrong ones, and two strokes for arcs below the words. */
  function arrow(kind, x, base, up) {
    const back = base - up * ARROW;
    const strokes = `M${x - 3.5} ${back}L${x} ${base}L${x + 3.5} ${back}`;
    return svg('path', { class: 'arrow', d: treeLayout.isBelow({ kind }) ? strokes : `${strokes}Z` });
  }

  function drawLabel({ arc, middle, level }) {
    const { own, gold } = treeLayout.labelParts(arc);
    const parts = [svg('tspan', { class: 'own' }, [own])];
    if (gold) {
      parts.push(svg('tspan', { class: 'gold' }, [`${NO_BREAK}${gold}`]));
    }
    const kinds = treeLayout.isDoubtful(arc) ? `${arc.kind} doubtful` : arc.kind;
    const attributes = { class: `label ${kinds}`, x: middle, y: level + LABEL_DROP };
    return svg('text', { ...attributes, 'data-dependent': arc.dependent, direction: 'ltr' }, parts);
  }

  function drawWord(sentence, index, { middles, halves, ground, words, tags, place }) {
    const x = place(middles[index]);
    const half = halves[index] + 6;
    const box = { class: 'plate', x: x - half, y: ground + 3, width: 2 * half, height: tags - ground + 3, rx: 4 };
    const parts = [
      svg('rect', box),
      svg('text', { class: 'form', x, y: words, lang: '' }, [sentence.forms[index]]),
    ];
    if (sentence.upos) {
      parts.push(svg('text', { class: 'tag', x, y: tags }, [sentence.upos[index]]));
    }
    return svg('g', { class: 'word', 'data-word': index + 1 }, parts);
  }

  /** A bracket under the words of a multiword token, and its form. */
  function drawToken([first, last, form], { middles, halves, tags, tokens, place }) {
    const left = place(middles[first - 1] - halves[first - 1]);
    const right = place(middles[last - 1] + halves[last - 1]);
    return svg('g', { class: 'token' }, [
      svg('path', { class: 'bracket', d: `M${left} ${tags + 7}v4H${right}v-4` }),
      svg('text', { class: 'form', x: (left + right) / 2, y: tokens, lang: '' }, [form]),
    ]);
  }

  /** All arcs in words. */
  function description(sentence) {
    const name = (word) => (word ? sentence.forms[word - 1] : 'ROOT');
    const arcs = sentence.forms.map((form, index) => {
      let arc = `${form}: ${sentence.labels[index]} of ${name(sentence.heads[index])}`;
      const [head, label, error] = sentence.gold?.[index + 1] ?? [];
      const probability = sentence.probabilities?.[index];
      if (treeLayout.isDoubtful({ probability })) {
        arc = `${arc}, doubtful`;
      }
      return error ? `${arc}, wrong, gold: ${label} of ${name(head)}` : arc;
    });
    const enhanced = treeLayout.arcsOf(sentence).below.filter(({ kind }) => kind === 'enhanced')
      .map(({ head, dependent, label }) => `${name(dependent)}: ${label} of ${name(head)}`);
    return `Dependency tree. ${arcs.join('; ')}.${enhanced.length ? ` Enhanced: ${enhanced.join('; ')}.` : ''}`;
  }

  /** Highlight words. numbers: a Set of word numbers. */
  function markWords(tree, numbers) {
    for (const word of tree.querySelectorAll('.word')) {
      word.classList.toggle('marked', numbers.has(Number(word.dataset.word)));
    }
  }

  /** Bring out a word and its arcs; null for none. Returns the element of the word. */
  function chooseWord(tree, number) {
    tree.querySelectorAll('.chosen').forEach((element) => element.classList.remove('chosen'));
    if (number === null) {
      return null;
    }
    tree.querySelectorAll(`[data-head="${number}"], [data-dependent="${number}"]`)
      .forEach((element) => element.classList.add('chosen'));
    const word = tree.querySelector(`[data-word="${number}"]`);
    word.classList.add('chosen');
    return word;
  }

  /** A list that explains kinds of arcs: those of a tree that is compared with gold, doubtful and enhanced ones. */
  function drawLegend({ gold, doubtful, enhanced }) {
    const list = document.createElement('ul');
    list.className = 'legend';
    const kinds = Object.entries(KINDS).filter(([kind]) => ({ doubtful, enhanced }[kind] ?? gold));
    for (const [kind, text] of kinds) {
      const item = document.createElement('li');
      item.append(sample(kind), text);
      list.append(item);
    }
    return list;
  }

  function sample(kind) {
    const arc = { head: 1, dependent: 2, kind, label: '', probability: kind === 'doubtful' ? 0.6 : undefined };
    const isBelow = treeLayout.isBelow(arc);
    const heights = isBelow ? { base: 6, level: 20, up: -1 } : { base: 24, level: 10, up: 1 };
    const shape = { arc, start: 6, end: 52, ...heights, ...labelPlace(arc, 6, 52) };
    const parts = [drawArc(shape), drawLabel(shape)];
    return svg('svg', { class: 'tree', width: 58, height: 28, viewBox: '0 0 58 28', 'aria-hidden': 'true' }, parts);
  }

  return { drawTree, drawLegend, markWords, chooseWord };
})();
