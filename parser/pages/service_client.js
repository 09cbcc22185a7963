/** Asks the service. What goes wrong is thrown as an Error whose message is for the reader of the page. */
const serviceClient = (() => {
  'use strict';

  const REASONS = {
    400: 'The service cannot read this',
    408: 'The text did not reach the service in time',
    413: 'This is too much at a time',
    422: 'The service cannot read this',
    429: 'The service is busy',
    500: 'The service failed',
    503: 'The service has no answer',
  };
  const UNAUTHORIZED = 401;
  const TOKEN = /^[\x21-\x7e]*$/;
  const NOT_REACHED = 'The service cannot be reached. Is it running, and is there a connection to it?';
  const BROKEN_OFF = 'The answer broke off.';
  const CUT = 'The service was stopped or out of time, or it cannot read what comes next.';
  /** The last line of an answer that fails. No sentence follows it. */
  const ERROR_LINE = /^# error = (\d+): (.*)\n$/;

  /** The service wants a token, or another one. */
  class TokenError extends Error {
    constructor(token) {
      super(token ? 'The service does not know this token.' : 'The service needs a token.');
    }
  }

  /** @returns {Promise<{models: Object<string, string[]>, default_model: string}>} With the parts that each has. */
  async function models(token) {
    const answer = await ask('models', token, {});
    return answer.json();
  }

  /**
   * CoNLL-U, sentence by sentence, as it comes.
   *
   * @param {object} request What `POST /v1/parse` takes.
   * @param {AbortSignal} signal
   */
  async function* parse(request, token, signal) {
    const answer = await ask('v1/parse', token, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'text/x-conllu' },
      body: JSON.stringify(request),
      signal,
    });
    let rest = '';
    let isCut = false;
    try {
      for await (const piece of pieces(answer.body)) {
        const blocks = (rest + piece).split('\n\n');
        rest = blocks.pop();
        yield blocks;
      }
    } catch (error) {
      if (signal.aborted) {
        throw error;
      }
      isCut = true;
    }
    const [, code, detail] = ERROR_LINE.exec(rest) ?? [];
    if (isCut || code) {
      throw new Error(`${BROKEN_OFF} ${code ? told(code, detail) : CUT}`);
    }
  }

  async function ask(path, token, { headers = {}, signal, ...settings }) {
    if (!TOKEN.test(token)) { // which no header can have
      throw new TokenError(token);
    }
    const authorization = token ? { Authorization: `Bearer ${token}` } : {};
    let answer;
    try {
      answer = await fetch(path, { ...settings, signal, headers: { ...headers, ...authorization } });
    } catch (error) {
      throw signal?.aborted ? error : new Error(NOT_REACHED);
    }
    if (answer.status === UNAUTHORIZED) {
      throw new TokenError(token);
    }
    if (!answer.ok) {
      throw new Error(await refusal(answer));
    }
    return answer;
  }

  /** What the service says of it, after what that means. A proxy's own pages are left out. */
  async function refusal(answer) {
    const detail = answer.headers.get('Content-Type')?.startsWith('application/json')
      ? (await answer.json().catch(() => ({}))).detail : '';
    return told(answer.status, detail);
  }

  function told(code, detail) {
    const reason = REASONS[code] ?? `The service answered with status ${code}`;
    return detail ? `${reason}: ${detail}.` : `${reason}.`;
  }

  async function* pieces(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      yield read.value;
    }
  }

  return { models, parse, TokenError };
})();
