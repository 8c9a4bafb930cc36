// SPDX-License-Identifier: Apache-2.0
import { html } from "../parts/html.js";

export function Time() {
  return html`<h1>Time</h1>`;
}
