// What libraries.js is in a build without the libraries: answers are shown as they are written.
export const Marked = null;
export const purify = null;
export const highlight = null;
