// SPDX-License-Identifier: Apache-2.0
import { html } from "../parts/html.js";

export function Profiles() {
  return html`<h1>Profiles</h1>`;
}
