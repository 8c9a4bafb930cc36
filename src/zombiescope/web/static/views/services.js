// SPDX-License-Identifier: Apache-2.0
import { html } from "../parts/html.js";

export function Services() {
  return html`<h1>Services</h1>`;
}
