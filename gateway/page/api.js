// The gateway's API as the page uses it. Nothing here knows of the page; tests run it in node.

// Server-sent events, however the network cuts them: feed() gives each event's data, in order.
export class EventReader {
  #rest = '';

  feed(text) {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop();
    return lines.filter(line => line.startsWith('data:')).map(line => line.slice(5).trim());
  }
}

export function requestHeaders(key) {
  const headers = { 'Content-Type': 'application/json' };
  if (key) headers.Authorization = `Bearer ${key}`;
  return headers;
}

// The text of an error response, whatever its body is.
async function errorText(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answered ${response.status}`;
  }
}

// {status, names}: the models' names; none when the status is not 200.
export async function listModels(key) {
  const response = await fetch('v1/models', { headers: requestHeaders(key) });
  if (!response.ok) return { status: response.status, names: [] };
  return { status: 200, names: (await response.json()).data.map(model => model.id) };
}

// Prometheus text, or null when there is none to be had.
export async function readMetrics(key) {
  const response = await fetch('metrics', { headers: requestHeaders(key) });
  return response.ok ? response.text() : null;
}

// Posts a chat and calls each(event) for every event of the stream. Throws an Error with the
// server's text, and also when the stream ends before the server has said that it is complete.
export async function streamChat(body, key, signal, each) {
  const response = await fetch('v1/chat/completions', {
    method: 'POST',
    headers: requestHeaders(key),
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw new Error(await errorText(response));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const events = new EventReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error('the connection ended before the answer was complete');
    for (const data of events.feed(value)) {
      if (data === '[DONE]') return;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message);
      each(event);
    }
  }
}
