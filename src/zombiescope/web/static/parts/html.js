// SPDX-License-Identifier: Apache-2.0
// Markup as tagged templates. What stands in ${…} becomes a text node, whoever named it.
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
