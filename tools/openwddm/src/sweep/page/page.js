'use strict';
// The curves and the table of each workload of a sweep.

const data = JSON.parse(document.getElementById('data').textContent);

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const dark = matchMedia('(prefers-color-scheme: dark)').matches;
// Of equal lightness; the bound is drawn in the colour of text.
const hues = [215, 28, 150, 330, 265, 90];
const ofCurve = (nth) => `hsl(${hues[nth % hues.length]} 70% ${dark ? 62 : 42}%)`;

function bytes(n) {
  const names = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let unit = 0;
  while (n >= 1023.995 && unit < 6) { n /= 1024; unit++; }
  return (unit ? n.toFixed(2) : String(n)) + ' ' + names[unit];
}
// Without zeros behind the point, for axes.
const brief = (n) => (n === 0 ? '0' : bytes(n).replace(/\.0+ |(\.\d*[1-9])0+ /, '$1 '));
const percent = (millionths) => (millionths / 1e4).toFixed(1) + ' %';

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

// Round steps in binary units, so that an axis of bytes has round numbers.
function byteSplits(u, axis, low, high) {
  let step = 2 ** Math.max(0, Math.floor(Math.log2((high - low) / 4)));
  while ((high - low) / step > 6) step *= 2;
  const splits = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) splits.push(at);
  return splits;
}

// What uPlot does not draw: the share that was asked for, and the knees.
function marks(table, pictured) {
  return (u) => {
    const { ctx, bbox } = u, scale = devicePixelRatio;
    ctx.save();
    ctx.lineWidth = scale;
    ctx.setLineDash([4 * scale, 4 * scale]);
    if (pictured === 'share') {
      const y = u.valToPos(data.target, 'y', true);
      ctx.strokeStyle = colour('quiet');
      ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
    }
    table.curves.forEach((curve, nth) => {
      if (curve.knee === null) return;
      const x = u.valToPos(curve.knee, 'x', true);
      ctx.strokeStyle = ctx.fillStyle = ofCurve(nth);
      ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
      if (pictured !== 'share') return;
      ctx.font = 12 * scale + 'px system-ui, sans-serif';
      const left = x > bbox.left + bbox.width / 2;
      ctx.textAlign = left ? 'right' : 'left';
      ctx.fillText(`${curve.policy} ${bytes(curve.knee)}`, x + (left ? -5 : 5) * scale, bbox.top + bbox.height - (10 + 16 * nth) * scale);
    });
    ctx.restore();
  };
}

function chart(place, table, pictured) {
  const share = pictured === 'share', shown = share ? percent : bytes;
  const value = (u, v) => (v === null || v === undefined ? '–' : shown(v));
  const line = { stroke: colour('quiet'), grid: { stroke: colour('line'), width: 1 }, ticks: { stroke: colour('line'), width: 1 } };
  const bound = share ? table.at_best : table.fewest;
  const series = [{ label: 'memory', value: (u, v) => (v === null || v === undefined ? '–' : bytes(v)) }];
  table.curves.forEach((curve, nth) => series.push({ label: curve.policy, stroke: ofCurve(nth), width: 2, value, points: { show: true, size: 6 } }));
  series.push({ label: share ? 'at best' : 'fewest bytes', stroke: colour('ink'), width: 1.5, dash: [7, 4], value, points: { show: false } });
  const values = [table.sizes, ...table.curves.map((curve) => curve[pictured]), bound];
  const most = Math.max(1, ...values.slice(1).flat().filter((v) => v !== null));
  const wide = () => Math.max(280, place.clientWidth);
  const drawn = new uPlot({
    width: wide(), height: 300, series,
    scales: { x: { time: false }, y: { range: [0, share ? Math.max(1.04e6, most * 1.04) : most * 1.06] } },
    axes: [
      { ...line, splits: byteSplits, values: (u, splits) => splits.map(brief), space: 70 },
      { ...line, ...(share ? { incrs: [2e5], values: (u, splits) => splits.map((v) => v / 1e4 + ' %') } : { splits: byteSplits, values: (u, splits) => splits.map(brief) }), size: 78 },
    ],
    cursor: { drag: { x: true, y: false } },
    hooks: { draw: [marks(table, pictured)] },
  }, values, place);
  addEventListener('resize', () => drawn.setSize({ width: wide(), height: 300 }));
}

function numbers(table) {
  const made = element('table'), head = element('tr');
  const titles = ['memory', 'of the peak', 'at best', ...table.curves.map((c) => c.policy), 'fewest bytes', ...table.curves.map((c) => c.policy + ' moves')];
  titles.forEach((title) => head.append(element('th', title, 'n')));
  made.append(head);
  table.sizes.forEach((size, at) => {
    const row = element('tr');
    const known = (value, shown) => (value === null ? '–' : shown(value));
    const cells = [bytes(size), (size * 100 / table.peak).toFixed(1) + ' %', known(table.at_best[at], percent), ...table.curves.map((c) => known(c.share[at], percent)),
      known(table.fewest[at], bytes), ...table.curves.map((c) => known(c.moved[at], bytes))];
    cells.forEach((cell) => row.append(element('td', cell, 'n')));
    made.append(row);
  });
  const scroll = element('div', undefined, 'scroll gap');
  scroll.append(made);
  return scroll;
}

function show(table) {
  const section = element('section');
  const processes = table.processes === 1 ? '1 process' : table.processes + ' processes';
  section.append(element('h2', table.workload + ', ' + processes));
  const link = table.link === null ? '' : `, link ${table.link} MB/s each way`;
  const steps = table.steps === 1 ? '1 step' : table.steps + ' steps';
  section.append(element('p', `${steps} on ${table.adapter}${link}; one process has a peak of ${bytes(table.peak)}`, 'quiet'));
  const knees = element('ul', undefined, 'knees');
  table.curves.forEach((curve) => { if (curve.sentence) knees.append(element('li', curve.sentence)); });
  const charts = element('div', undefined, 'charts');
  section.append(knees, charts);
  document.getElementById('tables').append(section);
  const pictures = [['share', table.last_step ? 'Share of the ideal, last step' : 'Share of the ideal, whole run'], ['moved', 'Bytes moved, in and out, all steps']];
  for (const [pictured, title] of pictures) {
    const place = element('div');
    place.append(element('h3', title));
    charts.append(place);
    chart(place, table, pictured);
  }
  section.append(numbers(table));
  for (const [workload, sentences] of data.imports) {
    if (workload === table.workload) sentences.forEach((sentence) => section.append(element('p', `Recording: ${sentence}.`, 'quiet gap')));
  }
}

const names = [...new Set(data.tables.map((table) => table.workload))];
document.getElementById('headline').textContent = names.length ? names.join(', ') + ' by memory size' : 'No run has a row yet';
const warnings = document.getElementById('warnings');
const warn = (text) => warnings.append(element('span', text, 'warning'), document.createElement('br'));
if (data.interrupted) warn('The sweep was interrupted: this is what was reached until then.');
if (data.missing) warn(`${data.missing} runs have no row yet.`);
if (data.left_out.length) warn(`${data.left_out.length} sizes are too small and were left out.`);
data.tables.forEach(show);
