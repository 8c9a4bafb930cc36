# SPDX-License-Identifier: Apache-2.0
"""The style of a written page: one column, light and dark by the reader's own setting, plain on paper."""

from __future__ import annotations

STYLE = """
:root{--ink:#1b1f24;--faint:#5b6570;--paper:#fff;--card:#f5f6f8;--line:#d5dae0;--ok:#1a7f37;--warning:#9a6700;--critical:#c0262d;--unknown:#5b6570}
@media (prefers-color-scheme:dark){:root{--ink:#e8ebef;--faint:#9aa5b1;--paper:#14171b;--card:#1e2329;--line:#39414a;--ok:#4ac26b;--warning:#d4a72c;--critical:#ff7b72;--unknown:#9aa5b1}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1040px;margin:0 auto;padding:28px 20px 60px}
header{border-left:6px solid var(--unknown);padding:2px 0 2px 18px;margin-bottom:26px}
header.ok{border-color:var(--ok)}header.warning{border-color:var(--warning)}header.critical{border-color:var(--critical)}
h1 code{font-size:inherit}h1{font-size:22px;line-height:1.35;margin:4px 0;overflow-wrap:anywhere}h2{font-size:17px;margin:34px 0 10px;padding-bottom:4px;border-bottom:1px solid var(--line)}
h3{font-size:15px;margin:0 0 4px}.about,.faint,.because{color:var(--faint)}.about{margin:0}
code,pre{font:13px/1.45 ui-monospace,monospace}pre{background:var(--card);padding:8px 10px;overflow:auto;white-space:pre-wrap}
article{background:var(--card);border-left:4px solid var(--unknown);border-radius:4px;padding:12px 16px;margin:12px 0}
article.warning{border-color:var(--warning)}article.critical{border-color:var(--critical)}article p{margin:4px 0}
.badge{font-weight:600;color:var(--unknown)}.warning .badge{color:var(--warning)}.critical .badge{color:var(--critical)}
table{border-collapse:collapse;width:100%;margin:8px 0;font-size:13px}td{border-top:1px solid var(--line);padding:3px 12px 3px 0;vertical-align:top;overflow-wrap:anywhere}
td.number{text-align:right;font-variant-numeric:tabular-nums}li{margin:8px 0}li p{margin:2px 0}
dt{font-weight:600;margin-top:8px}dd{margin:0;color:var(--faint)}
svg{max-width:100%;height:auto;display:block;margin:10px 0}svg text{fill:var(--ink);font:13px system-ui,sans-serif}
.node rect{fill:var(--card);stroke:var(--unknown);stroke-width:1.5}.node.warning rect{stroke:var(--warning)}.node.critical rect{stroke:var(--critical)}
.node.origin rect{stroke-width:3.5}.node .role{fill:var(--faint);font-size:11px}.node .name{font-weight:600}
.link{stroke:var(--faint);stroke-width:1.5;fill:none}.tip{fill:var(--faint)}
.lane{stroke:var(--line);stroke-width:2}.mark{stroke:var(--critical);stroke-width:2}.curve{fill:none;stroke:var(--warning);stroke-width:1.5}.tick{font-size:11px}
@media print{:root{--ink:#000;--faint:#444;--paper:#fff;--card:#fff;--line:#bbb;--ok:#060;--warning:#850;--critical:#a00;--unknown:#444}
main{max-width:none;padding:0}article,li,svg,tr{break-inside:avoid}article{border:1px solid var(--line);border-left-width:4px}h2{break-after:avoid}}
"""  # noqa: E501 (one rule a line)
