// The picture of what the server does: a cell for each sequence in the batch and each that waits,
// and the KV blocks in use. Hidden where the server does not say, or wants a key.

import { readMetrics } from './api.js';
import { $, make } from './dom.js';
import { readLoad } from './metrics.js';

const PERIOD_MS = 1000, BATCH_CELLS = 48, BLOCK_CELLS = 48;

// `states`: the class of each cell.
function draw(root, states) {
  while (root.childNodes.length > states.length) root.lastChild.remove();
  while (root.childNodes.length < states.length) root.append(make('i'));
  states.forEach((state, i) => (root.childNodes[i].className = state));
}

function batchCells({ running, waiting }) {
  const cells = [...Array(Math.min(running, BATCH_CELLS)).fill('on')];
  while (cells.length < BATCH_CELLS && cells.length < running + waiting) cells.push('waits');
  while (cells.length < Math.min(8, BATCH_CELLS)) cells.push('');
  return cells;
}

function blockCells(share) {
  const used = share > 0 ? Math.max(1, Math.round(share * BLOCK_CELLS)) : 0;
  return Array.from({ length: BLOCK_CELLS }, (_, i) => (i < used ? 'on' : ''));
}

export function showLoad(load) {
  $('load').hidden = !load;
  if (!load) return;
  $('load-text').textContent = `Batch: ${load.running} running, ${load.waiting} waiting`;
  draw($('batch'), batchCells(load));
  $('blocks').hidden = $('blocks-text').hidden = load.blocks === null;
  if (load.blocks === null) return;
  const percent = (load.blocks * 100).toFixed(load.blocks < 0.1 ? 1 : 0);
  $('blocks-text').textContent = `KV blocks: ${percent} % in use`;
  draw($('blocks'), blockCells(load.blocks));
}

// Asks while somebody looks.
export function watchLoad(settings) {
  const look = async () => {
    if (document.visibilityState === 'visible') {
      const text = await readMetrics(settings.key).catch(() => null);
      showLoad(text === null ? null : readLoad(text, settings.model));
    }
    setTimeout(look, PERIOD_MS);
  };
  look();
}
