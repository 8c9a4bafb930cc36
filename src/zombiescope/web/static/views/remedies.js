// SPDX-License-Identifier: Apache-2.0
import { html } from "../parts/html.js";

export function Remedies() {
  return html`<h1>Remedies</h1>`;
}
