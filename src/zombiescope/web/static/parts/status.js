// SPDX-License-Identifier: Apache-2.0
// What is said aloud to those who do not see: politely, and at most one message in ten seconds unless a key was pressed.
let region = null, last = 0, waiting = 0;

export function statusRegion(element) {
  region = element;
}

function put(text) {
  last = performance.now();
  if (region) region.textContent = text;
}

// Something a person did: told at once.
export function say(text) {
  clearTimeout(waiting);
  put(text);
}

// Something that changed by itself: the newest, when ten seconds have passed.
export function sayLater(text) {
  clearTimeout(waiting);
  waiting = setTimeout(() => put(text), Math.max(0, 10000 - (performance.now() - last)));
}
