// SPDX-License-Identifier: Apache-2.0
// A document that the server still makes: what it does, since when, how long it takes as a rule.
import { useEffect, useState } from "../vendor/hooks.js";
import { html } from "./html.js";
import { seconds } from "./words.js";

export function Making({ making, of }) {
  const [begun] = useState(Date.now()), [now, setNow] = useState(begun);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  return html`<section class="panel" aria-busy="true" aria-label=${`Reading ${of}`}><p class="reading">Reading ${of}: ${making.what || "looking at the node"}. ${seconds((now - begun) / 1000)} so far${making.expected_seconds ? `, about ${seconds(making.expected_seconds)} as a rule` : ""}.</p></section>`;
}
