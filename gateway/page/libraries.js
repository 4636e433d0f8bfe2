// The libraries that the build found; where it found none, plain.js stands in for this file.
export { Marked } from './lib/marked.js';
export { default as purify } from './lib/purify.js';
export { default as highlight } from './lib/highlight.js';
