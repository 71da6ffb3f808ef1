"""The style sheet of a report: light, dark and on paper; no font or picture from elsewhere."""

STYLE = """
:root {
  --ink: #1b1f24; --soft: #57606a; --paper: #ffffff; --panel: #f6f8fa; --rule: #d0d7de;
  --dot: #0072b2; --best: #d55e00; --fail: #a3175a; --fill: #0072b2; --marker: #0072b2;
  --lower: #0072b2; --build: #e69f00; --run: #009e73; --wait: #999999;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6edf3; --soft: #9aa4af; --paper: #0d1117; --panel: #161b22; --rule: #30363d;
    --dot: #56b4e9; --best: #ff9e57; --fail: #f08bc0; --fill: #56b4e9; --marker: #56b4e9;
    --lower: #56b4e9; --build: #e69f00; --run: #2fc79a; --wait: #8b949e;
  }
}
@media print {
  :root {
    --ink: #000000; --soft: #444444; --paper: #ffffff; --panel: #ffffff; --rule: #bbbbbb;
    --dot: #0072b2; --best: #d55e00; --fail: #a3175a; --fill: #0072b2; --marker: #0072b2;
    --lower: #0072b2; --build: #e69f00; --run: #009e73; --wait: #999999;
  }
  figure, tr { break-inside: avoid; }
  h2 { break-before: page; }
  h2.first { break-before: auto; }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1000px; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
h1 { font-size: 1.5rem; margin: 0 0 0.25rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.5rem; border-top: 2px solid var(--rule);
     padding-top: 1rem; overflow-wrap: anywhere; }
h3 { font-size: 1.05rem; margin: 1.75rem 0 0.4rem; }
p { margin: 0.4rem 0; }
p.soft, figcaption, .soft { color: var(--soft); font-size: 0.9em; }
a { color: var(--dot); }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
            font-size: 0.87em; overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--rule); border-radius: 6px;
      padding: 0.7rem; overflow-x: auto; white-space: pre; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0.4rem 0; }
th, td { text-align: left; padding: 0.2rem 0.9rem 0.2rem 0; vertical-align: top;
         border-bottom: 1px solid var(--rule); }
th { color: var(--soft); font-weight: 600; font-size: 0.87em; }
td { white-space: nowrap; }
td .words { min-width: 13rem; max-width: 22rem; white-space: normal; font-size: 0.87em; }
nav td { white-space: normal; overflow-wrap: anywhere; }
nav td:first-child { min-width: 11rem; }
nav td:nth-child(n+7) { min-width: 9rem; font-size: 0.87em; }
nav td.right { white-space: nowrap; }
td code { display: inline-block; min-width: 16rem; white-space: normal; }
td.right, th.right { text-align: right; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.15rem 1rem; margin: 0.5rem 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
dd strong { font-size: 1.1em; }
details { margin: 0.3rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
figure { margin: 0.5rem 0; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr));
        gap: 0.25rem 1.5rem; }
svg.plot { width: 100%; height: auto; display: block; overflow: visible; }
svg text { fill: var(--soft); font-size: 11px; font-family: inherit; }
svg .label { text-anchor: middle; fill: var(--ink); }
svg .x { text-anchor: middle; }
svg .y { text-anchor: end; }
svg .axis { stroke: var(--soft); fill: none; }
svg .grid { stroke: var(--rule); fill: none; stroke-width: 0.6; }
svg .dot { stroke: var(--dot); stroke-width: 4; stroke-linecap: round; fill: none; opacity: 0.5; }
svg .cross { stroke: var(--fail); stroke-width: 1.2; fill: none; opacity: 0.75; }
svg .line { stroke: var(--best); stroke-width: 2; fill: none; }
svg .default { stroke: var(--soft); stroke-width: 1.2; stroke-dasharray: 5 4; }
svg .median { stroke: var(--ink); stroke-width: 1.6; }
svg .box { fill: var(--ink); fill-opacity: 0.07; stroke: var(--soft); stroke-width: 0.8; }
svg .marker { fill: var(--marker); fill-opacity: 0.01; stroke: none; }
svg .marker:hover { fill-opacity: 1; }
svg .marker.best { fill: var(--best); fill-opacity: 1; stroke: var(--paper); stroke-width: 0.8; }
svg .bar { fill: var(--fill); }
svg .lower, .key.lower { fill: var(--lower); background: var(--lower); }
svg .build, .key.build { fill: var(--build); background: var(--build); }
svg .run, .key.run { fill: var(--run); background: var(--run); }
svg .wait, .key.wait { fill: var(--wait); background: var(--wait); }
.key { display: inline-block; width: 0.75em; height: 0.75em; border-radius: 2px;
       margin-right: 0.4em; }
"""
"""Colours are Okabe and Ito's, which people with colour blindness can tell apart."""
