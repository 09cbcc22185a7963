/** All that is known of the words of a sentence, as a table that can be folded away. */
const wordTable = (() => {
  'use strict';

  const BLANK = '_';
  const TITLES = {
    number: '',
    form: 'word',
    lemma: 'lemma',
    upos: 'UPOS',
    xpos: 'XPOS',
    feats: 'features',
    head: 'head',
    label: 'relation',
    deps: 'enhanced',
    probability: 'probability',
  };

  /** The table is made when it is first opened. */
  function detailsOf(sentence, isOpen) {
    const details = document.createElement('details');
    details.className = 'words';
    details.append(element('summary', 'Words and probabilities'));
    details.addEventListener('toggle', () => details.append(boxOf(sentence)), { once: true });
    details.open = isOpen;
    return details;
  }

  /** A wide table is scrolled in its box, also by keys. */
  function boxOf(sentence) {
    const box = element('div');
    box.className = 'table-box';
    box.tabIndex = 0;
    box.setAttribute('role', 'region');
    box.setAttribute('aria-label', `Words of sentence ${sentence.id}`);
    box.append(tableOf(sentence));
    return box;
  }

  function tableOf(sentence) {
    const rows = sentence.forms.map((_, index) => valuesOf(sentence, index));
    const names = Object.keys(TITLES).filter((name) => rows.some((row) => row[name] !== undefined));
    const table = element('table');
    table.createTHead().append(rowOf(names.map((name) => heading(TITLES[name], 'col', name))));
    table.createTBody().append(...rows.map((row) => rowOf(names.map((name) => cellOf(row, name)))));
    return table;
  }

  function valuesOf(sentence, index) {
    const head = sentence.heads[index];
    const probability = sentence.probabilities?.[index];
    return {
      number: index + 1,
      form: sentence.forms[index],
      lemma: sentence.lemmas?.[index],
      upos: sentence.upos?.[index],
      xpos: sentence.xpos?.[index],
      feats: sentence.feats?.[index].replaceAll('|', ' '),
      head: head ? `${head} ${sentence.forms[head - 1]}` : 'ROOT',
      label: sentence.labels[index],
      deps: treeLayout.edgesTo(sentence, index + 1).map((edge) => `${edge.head}:${edge.label}`).join(' ') || undefined,
      probability: probability === undefined ? undefined : `${(100 * probability).toFixed(1)} %`,
    };
  }

  function cellOf(row, name) {
    if (name === 'form') {
      return heading(row[name], 'row', name);
    }
    const cell = element('td', row[name] === BLANK ? '' : row[name]);
    cell.className = name;
    return cell;
  }

  function heading(text, scope, name) {
    const cell = element('th', text);
    cell.scope = scope;
    cell.className = name;
    return cell;
  }

  function rowOf(cells) {
    const row = element('tr');
    row.append(...cells);
    return row;
  }

  function element(name, text = '') {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  }

  return { detailsOf };
})();
