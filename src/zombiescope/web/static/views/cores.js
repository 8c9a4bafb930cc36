// SPDX-License-Identifier: Apache-2.0
import { html } from "../parts/html.js";

export function Cores() {
  return html`<h1>Cores</h1>`;
}
