/** The page of a service: a text goes there, and its trees come back. */
(() => {
  'use strict';

  const AT_A_TIME = 20;
  const LONGEST_LINK = 8000;
  const NO_TOKENIZER = 'This model cannot divide text. Write blanks between all words and signs, and each sentence in '
    + 'a line of its own; or paste CoNLL-U.';
  const NO_TAGS = 'This model predicts no tags. If it was trained to read them, its trees are poor without: paste '
    + 'CoNLL-U that has tags.';
  const NOT_COPIED = 'This browser does not let the page copy. What is to be copied is selected below.';

  const byId = (id) => document.getElementById(id);
  const counted = (count, name) => `${count.toLocaleString('en')} ${name}${count === 1 ? '' : 's'}`;
  /** The CoNLL-U of each sentence, and the first ones as they are shown. */
  let blocks = [];
  let records = [];
  /** What each model has, by its name; null until the service has told it. */
  let parts = null;
  let wantedInput = 'raw';
  /** The request that runs. */
  let running = null;

  const linked = () => new URLSearchParams(location.hash.slice(1));
  const token = () => byId('token').value.trim();
  const say = (text) => { byId('status').textContent = text; };

  function tell(error) {
    say('');
    byId('problem').textContent = error.message;
    byId('problem').hidden = false;
    if (error instanceof serviceClient.TokenError) {
      askForToken();
    }
  }

  function askForToken() {
    byId('token-field').hidden = false;
    byId('docs').hidden = true;
    byId('token').focus();
  }

  async function loadModels() {
    const { models, default_model: first } = await serviceClient.models(token());
    parts = models;
    const names = Object.keys(models);
    const wanted = linked().get('model') ?? first;
    byId('model').replaceChildren(...names.map((name) => new Option(name)));
    byId('model').value = names.includes(wanted) ? wanted : first;
    byId('model-field').hidden = names.length === 1;
    adapt();
    if (!names.includes(wanted)) {
      throw new Error(`The link is to the model ${wanted}, which this service does not have.`);
    }
  }

  /** Offer what the model can read, and say what it lacks. */
  function adapt() {
    const [divides, tags] = ['tokenizer', 'tagger'].map((part) => parts[byId('model').value].includes(part));
    const input = byId('input');
    for (const option of input.options) {
      option.disabled = !divides && ['raw', 'one-sentence-per-line'].includes(option.value);
    }
    input.value = wantedInput;
    if (input.selectedIndex === -1 || input.selectedOptions[0].disabled) {
      input.value = divides ? 'raw' : 'tokenized';
    }
    const isText = input.value !== 'conllu';
    const notes = [divides || !isText ? '' : NO_TOKENIZER, tags || !isText ? '' : NO_TAGS].filter(Boolean);
    byId('note').textContent = notes.join(' ');
    byId('note').hidden = !notes.length;
  }

  /** What `POST /v1/parse` takes. */
  function request() {
    const [model, input, text] = ['model', 'input', 'text'].map((id) => byId(id).value);
    const content = input === 'conllu' ? { conllu: text } : { texts: [text], text_format: input };
    return { model, probabilities: true, ...content };
  }

  async function parse() {
    running?.abort();
    const own = new AbortController();
    running = own;
    clear();
    say('Parsing…');
    byId('stop').hidden = false;
    try {
      if (!parts) {
        await loadModels();
      }
      for await (const found of serviceClient.parse(request(), token(), own.signal)) {
        if (own.signal.aborted) {
          return;
        }
        add(found);
      }
      say(blocks.length ? `${counted(blocks.length, 'sentence')}, parsed by ${byId('model').value}.`
        : 'There is no sentence in the text.');
    } catch (error) {
      if (!own.signal.aborted) {
        tell(error);
      }
    } finally {
      if (running === own) {
        running = null;
        byId('stop').hidden = true;
      }
    }
  }

  function stop() {
    running.abort();
    say(`Stopped after ${counted(blocks.length, 'sentence')}.`);
    byId('parse').focus();
  }

  function clear() {
    wordBox.hide();
    blocks = [];
    records = [];
    byId('sentences').replaceChildren();
    ['results', 'problem', 'copy-field', 'copy-conllu'].forEach((id) => { byId(id).hidden = true; });
  }

  function add(found) {
    blocks.push(...found);
    if (blocks.length) {
      ['results', 'copy-conllu'].forEach((id) => { byId(id).hidden = false; });
      show(Math.max(0, AT_A_TIME - records.length));
    }
  }

  /** Show so many more sentences. */
  function show(count) {
    const before = records.length;
    const sentences = blocks.slice(before, before + count)
      .map((block, index) => conlluReading.sentenceOf(block, before + index + 1));
    const added = treeList.fillList(byId('sentences'), sentences, before);
    for (const { article, box, sentence, position } of added) {
      box.tabIndex = 0; // so that a wide tree can be scrolled with keys
      article.append(wordTable.detailsOf(sentence, position === 0));
    }
    records.push(...added);
    const rest = blocks.length - records.length;
    byId('more').hidden = !rest;
    byId('more').textContent = `Show ${Math.min(AT_A_TIME, rest)} more of ${counted(rest, 'sentence')}`;
    return added;
  }

  function showMore() {
    show(AT_A_TIME)[0].article.focus();
  }

  async function copy(text, name) {
    try {
      await navigator.clipboard.writeText(text); // which is not there without HTTPS
      byId('copy-field').hidden = true;
      say(`${name} copied.`);
    } catch {
      byId('copy-field').hidden = false;
      byId('copy').value = text;
      byId('copy').select();
      say(NOT_COPIED);
    }
  }

  /** What follows # is never sent to a server. */
  function copyLink() {
    const values = ['model', 'input', 'text'].map((id) => [id, byId(id).value]);
    const address = new URL(`#${new URLSearchParams(values)}`, location.href).href;
    if (address.length > LONGEST_LINK) {
      say(`The text is too long for a link, which has at most ${counted(LONGEST_LINK, 'character')}.`);
      return;
    }
    history.replaceState(null, '', address);
    copy(address, 'Link');
  }

  /** Parse what the address holds. */
  async function open() {
    const text = linked().get('text');
    byId('text').value = text ?? byId('text').value;
    wantedInput = linked().get('input') ?? wantedInput;
    try {
      await loadModels();
      byId('docs').hidden = false;
    } catch (error) {
      if (error instanceof serviceClient.TokenError && !token()) {
        askForToken();
      } else {
        tell(error);
      }
      return;
    }
    if (text) {
      await parse();
    }
  }

  function onKey(event) {
    if (event.key === 'Escape') {
      wordBox.hide();
    } else if (event.target === byId('text') && event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      byId('request').requestSubmit();
    }
  }

  byId('request').addEventListener('submit', (event) => { event.preventDefault(); parse(); });
  document.addEventListener('keydown', onKey);
  byId('model').addEventListener('change', adapt);
  byId('input').addEventListener('change', () => { wantedInput = byId('input').value; adapt(); });
  byId('stop').addEventListener('click', stop);
  byId('more').addEventListener('click', showMore);
  byId('copy-conllu').addEventListener('click', () => copy(`${blocks.join('\n\n')}\n\n`, 'CoNLL-U'));
  byId('copy-link').addEventListener('click', copyLink);
  addEventListener('hashchange', open);
  wordBox.follow(byId('sentences'), (node) => records[node.closest('.sentence').dataset.position]);
  open();
})();
