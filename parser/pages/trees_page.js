/** The page of `stack-parser draw`: filters, their state in the address, and keys. */
(() => {
  'use strict';

  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId('trees').textContent);
  const form = byId('filters');
  const list = byId('sentences');
  const fields = ['word', 'upos', 'label', 'confidence', 'error', 'sort'];
  const records = treeList.fillList(list, data.sentences);
  let shown = records;
  let current = null;

  function start() {
    byId('summary').textContent = summary();
    const known = {
      gold: Boolean(data.scores),
      doubtful: data.sentences.some(({ probabilities }) => probabilities),
      enhanced: data.sentences.some(({ deps }) => deps),
    };
    showOnly('.with-gold', known.gold);
    showOnly('.with-probabilities', known.doubtful);
    showOnly('.with-either', known.gold || known.doubtful);
    byId('legend').append(treeDrawing.drawLegend(known));
    for (const [name, values] of Object.entries(treeFilter.valuesOf(data.sentences))) {
      byId(name).append(...values.map((value) => new Option(value, value)));
    }
    readAddress();
    listen();
  }

  function showOnly(which, isKnown) {
    document.querySelectorAll(which).forEach((element) => { element.hidden = !isKnown; });
  }

  const counted = (count, name) => `${count.toLocaleString('en')} ${name}${count === 1 ? '' : 's'}`;

  function summary() {
    const { sentences, words, scores } = data;
    const counts = `${counted(sentences.length, 'sentence')}, ${counted(words, 'word')}`;
    return scores ? `${counts}; UAS ${scores.uas.toFixed(2)}, LAS ${scores.las.toFixed(2)}` : counts;
  }

  /** Set the filters from the address. What it names wrongly is left out. */
  function readAddress() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    for (const name of fields) {
      const field = byId(name);
      field.value = wanted.get(name) ?? '';
      if (field.selectedIndex === -1 || (field.selectedOptions?.[0] ?? field).closest('[hidden]')) {
        field.value = '';
      }
    }
    apply();
  }

  function writeAddress() {
    const values = new URLSearchParams(fields.map((name) => [name, byId(name).value]).filter(([, value]) => value));
    history.replaceState(null, '', values.size ? `#${values}` : location.pathname + location.search);
  }

  /** Show the sentences that pass the filters, in the chosen order. */
  function apply() {
    wordBox.hide();
    const filter = Object.fromEntries(fields.map((name) => [name, byId(name).value]));
    for (const record of records) {
      treeList.update(record, treeFilter.matchesOf(record, filter));
    }
    sortBy(filter.sort);
    shown = ordered.filter(({ article }) => !article.hidden);
    byId('count').textContent = `${shown.length.toLocaleString('en')} of ${counted(records.length, 'sentence')}`;
    byId('nothing').hidden = shown.length > 0;
    setCurrent(shown.includes(current) ? current : shown[0] ?? null);
  }

  const orders = { errors: (record) => record.errors, doubts: (record) => record.doubts };
  let ordered = records;
  let order = '';

  function sortBy(wanted) {
    if (wanted === order) {
      return;
    }
    order = wanted;
    const value = orders[wanted];
    ordered = value ? [...records].sort((a, b) => value(b) - value(a) || a.position - b.position) : records;
    list.append(...ordered.map(({ article }) => article));
  }

  /** The sentence that the Tab key reaches. */
  function setCurrent(record) {
    if (current) {
      current.article.tabIndex = -1;
    }
    current = record;
    if (current) {
      current.article.tabIndex = 0;
    }
  }

  function focusSentence(record) {
    setCurrent(record);
    wordBox.hide();
    record.article.focus({ preventScroll: true });
    record.article.scrollIntoView({ block: 'nearest' });
  }

  /** Go to another sentence; the first time, to the first that is shown. */
  function step(by) {
    const place = shown.indexOf(current);
    const hasFocus = current?.article.contains(document.activeElement);
    const next = shown[hasFocus ? place + by : Math.max(place, 0)];
    if (next) {
      focusSentence(next);
    }
  }

  /** Go to another word of the sentence that has the focus, to the right for 1 and to the left for -1. */
  function stepWord(by) {
    const { sentence } = current;
    treeList.draw(current);
    const forward = sentence.rightToLeft ? -by : by;
    const before = wordBox.shown()?.record === current ? wordBox.shown().number : 0;
    const last = sentence.forms.length;
    const number = before ? before + forward : forward > 0 ? 1 : last;
    if (number >= 1 && number <= last) {
      wordBox.show(current, number);
      wordBox.shown().element.scrollIntoView({ block: 'nearest', inline: 'nearest' });
      wordBox.place();
    }
  }

  function reset() {
    form.reset();
    apply();
    writeAddress();
  }

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    '/': () => { byId('word').focus(); byId('word').select(); },
  };

  function onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) {
      return;
    }
    if (event.key === 'Escape') {
      if (!wordBox.hide()) {
        reset();
      }
      return;
    }
    const inSentence = current !== null && document.activeElement === current.article;
    const inField = event.target.matches('input, select');
    const arrow = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (arrow && inSentence) {
      stepWord(arrow);
    } else if (keys[event.key] && !inField) {
      keys[event.key]();
    } else {
      return;
    }
    event.preventDefault();
  }

  const recordAt = (node) => records[node.closest('.sentence').dataset.position];

  function listen() {
    form.addEventListener('submit', (event) => event.preventDefault());
    form.addEventListener('input', () => { apply(); writeAddress(); });
    byId('reset-button').addEventListener('click', reset);
    addEventListener('hashchange', readAddress);
    addEventListener('beforeprint', () => shown.forEach(treeList.draw));
    document.addEventListener('keydown', onKey);
    wordBox.follow(list, recordAt);
    list.addEventListener('focusin', (event) => setCurrent(recordAt(event.target)));
  }

  start();
})();
