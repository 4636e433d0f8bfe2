// The server's load, read from its Prometheus text. Nothing here knows of the page.

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)/;

// Values of each name, with the text of their labels: Map(name -> [{labels, value}]).
export function parseMetrics(text) {
  const samples = new Map();
  for (const line of text.split('\n')) {
    const found = SAMPLE.exec(line);
    const value = found ? Number(found[3]) : NaN;
    if (Number.isNaN(value)) continue;
    if (!samples.has(found[1])) samples.set(found[1], []);
    samples.get(found[1]).push({ labels: found[2] ?? '', value });
  }
  return samples;
}

// Of a model where labels name it, else of all.
function valuesOf(samples, name, model) {
  const all = samples.get(name) ?? [];
  const own = all.filter(sample => sample.labels.includes(`model_name="${model}"`));
  return (own.length ? own : all).map(sample => sample.value);
}

const sum = values => values.reduce((total, value) => total + value, 0);

// {running, waiting, blocks}: sequences in the batch, those that wait, and the share of KV blocks
// that are in use, 0 to 1, or null where the server does not say. Null when it says nothing.
export function readLoad(text, model) {
  const samples = parseMetrics(text);
  const running = valuesOf(samples, 'vllm:num_requests_running', model);
  const waiting = valuesOf(samples, 'vllm:num_requests_waiting', model);
  const blocks = valuesOf(samples, 'vllm:kv_cache_usage_perc', model);
  if (running.length)
    return {
      running: sum(running),
      waiting: sum(waiting),
      blocks: blocks.length ? Math.max(...blocks) : null,
    };
  const open = valuesOf(samples, 'trireme_gateway_requests_open', model);
  const held = sum(valuesOf(samples, 'trireme_gateway_requests_waiting', model));
  if (!open.length) return null;
  return { running: Math.max(0, sum(open) - held), waiting: held, blocks: null };
}
