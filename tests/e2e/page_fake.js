// Runs in the browser before the page: chats are answered by the test, piece by piece.
// fake.requests: the bodies; fake.say(i, delta): a piece of answer i; fake.finish(i).
window.fake = {
  requests: [],
  streams: [],
  metrics: null,
  copied: null,
  say(i, delta, tokens = null) {
    const usage = tokens === null ? undefined : { completion_tokens: tokens };
    this.send(i, { choices: [{ delta, finish_reason: null }], usage });
  },
  send(i, event) {
    const { controller, aborted } = this.streams.at(i);
    if (!aborted) controller.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(event)}\n\n`));
  },
  finish(i, reason = 'stop') {
    const stream = this.streams.at(i);
    if (stream.aborted) return;
    this.send(i, { choices: [{ delta: {}, finish_reason: reason }] });
    stream.controller.enqueue(new TextEncoder().encode('data: [DONE]\n\n'));
    stream.controller.close();
  },
  cut(i) {
    this.streams.at(i).controller.close();
  },
};
{
  const real = window.fetch.bind(window);
  window.fetch = async (url, options = {}) => {
    if (url === 'metrics' && fake.metrics !== null) return new Response(fake.metrics);
    if (url !== 'v1/chat/completions') return real(url, options);
    fake.requests.push(JSON.parse(options.body));
    const stream = { aborted: false };
    const body = new ReadableStream({ start: controller => (stream.controller = controller) });
    options.signal.addEventListener('abort', () => {
      stream.aborted = true;
      stream.controller.error(new DOMException('stopped', 'AbortError'));
    });
    fake.streams.push(stream);
    return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } });
  };
  Object.defineProperty(navigator, 'clipboard', { value: { writeText: async text => (fake.copied = text) } });
}
