'use strict';
// Units, and the timeline: rows of marks and the curve of resident bytes over one axis of time, on a canvas.

const units = {
  bytes(n) {
    const names = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
    let unit = 0;
    while (n >= 1023.995 && unit < 6) { n /= 1024; unit++; }
    return (unit ? n.toFixed(2) : String(n)) + ' ' + names[unit];
  },
  grouped(n) { return String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ','); },
  time(ns) {
    if (ns < 1e3) return Math.round(ns) + ' ns';
    if (ns < 1e6) return (ns / 1e3).toFixed(1) + ' µs';
    if (ns < 1e9) return (ns / 1e6).toFixed(2) + ' ms';
    return (ns / 1e9).toFixed(2) + ' s';
  },
  percent(part, whole) { return whole > 0 ? (part * 100 / whole).toFixed(1) + ' %' : '–'; },
};

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const dark = matchMedia('(prefers-color-scheme: dark)');

// Operations and commands get a calm colour from their name, the same in every report.
function colourOfName(name) {
  let hash = 2166136261;
  for (const c of name) hash = Math.imul(hash ^ c.codePointAt(0), 16777619) >>> 0;
  const hue = 95 + (hash % 8) * 13, light = (hash >> 8) % 3 * 5;
  return dark.matches ? `hsl(${hue} 28% ${36 + light}%)` : `hsl(${hue} 36% ${46 + light}%)`;
}

class Chart {
  constructor(canvas, tip, range, data) {
    Object.assign(this, { canvas, tip, range, data, length: Math.max(1, data.timeline.length_ns), linked: [] });
    this.view = [0, this.length];
    this.fingers = new Map();
    this.build();
    this.listen();
    this.draw();
  }

  build() {
    const kinds = ['command', 'operation', 'paging', 'cpu', 'wait', 'signal', 'suspended', 'turn', 'ready'];
    this.rows = this.data.timeline.rows.map((row) => ({
      name: row.name,
      lists: kinds.filter((kind) => row.marks[kind]).map((kind) => ({ kind, marks: row.marks[kind] })),
    }));
    this.lanes();
    this.colours = this.data.timeline.names.map(colourOfName);
    this.panels = memoryPanels(this.data.memory);
  }

  // Several tracks of one name are lanes: only the first shows the name.
  lanes() {
    let last = null;
    for (const row of this.rows) { row.title = row.name === last ? '' : row.name; last = row.name; }
  }

  layout() {
    const box = this.canvas.getBoundingClientRect();
    this.narrow = box.width < 620;
    this.left = this.narrow ? 4 : 138;
    this.wide = Math.max(50, box.width - this.left - 4);
    const title = this.narrow ? 15 : 0;
    let y = 22;
    for (const row of this.rows) {
      row.y = y + (row.title ? title : 0);
      row.high = 22;
      y = row.y + row.high + 5;
    }
    this.curve = { y: y + 14 + title, high: 120 };
    y = this.curve.y + this.curve.high;
    for (const panel of this.panels) {
      panel.y = y + 12 + title;
      y = panel.y + panel.high;
    }
    const high = y + 8;
    const ratio = devicePixelRatio || 1;
    this.canvas.style.height = high + 'px';
    this.canvas.width = Math.round(box.width * ratio);
    this.canvas.height = Math.round(high * ratio);
    this.high = high;
    const pen = this.canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, box.width, high);
    return pen;
  }

  x(time) { return this.left + (time - this.view[0]) / (this.view[1] - this.view[0]) * this.wide; }
  time(x) { return this.view[0] + (x - this.left) / this.wide * (this.view[1] - this.view[0]); }

  draw() {
    const pen = this.layout();
    pen.font = '12px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    this.drawAxis(pen);
    pen.save();
    pen.beginPath(); pen.rect(this.left, 0, this.wide, this.high); pen.clip();
    for (const row of this.rows) this.drawRow(pen, row);
    for (const curve of this.data.resident) this.drawCurve(pen, curve);
    this.drawLimit(pen);
    for (const panel of this.panels) panel.draw(pen, this);
    this.drawRecoveries(pen);
    pen.restore();
    this.drawTitles(pen);
    this.range.textContent = `${units.time(this.view[0])} – ${units.time(this.view[1])}`;
  }

  drawAxis(pen) {
    const span = this.view[1] - this.view[0];
    const rough = span / Math.max(2, this.wide / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    pen.strokeStyle = colour('line'); pen.fillStyle = colour('quiet'); pen.lineWidth = 1;
    for (let t = Math.ceil(this.view[0] / step) * step; t <= this.view[1]; t += step) {
      const x = Math.round(this.x(t)) + .5;
      pen.beginPath(); pen.moveTo(x, 18); pen.lineTo(x, this.high); pen.stroke();
      const text = units.time(t);
      if (x + pen.measureText(text).width < this.left + this.wide) pen.fillText(text, x + 3, 9);
    }
    pen.strokeStyle = colour('accent');
    pen.setLineDash([3, 3]);
    for (const [number, at] of this.data.timeline.steps) {
      const x = Math.round(this.x(at)) + .5;
      if (at < this.view[0] || at > this.view[1] || this.data.timeline.steps.length > this.wide / 12) continue;
      pen.beginPath(); pen.moveTo(x, 18); pen.lineTo(x, this.high); pen.stroke();
      pen.fillStyle = colour('accent');
      pen.fillText('step ' + number, x + 3, this.curve.y + this.curve.high - 8);
    }
    pen.setLineDash([]);
  }

  // What the adapter had to recover from: over all rows, with its words where there is room for them.
  drawRecoveries(pen) {
    pen.strokeStyle = pen.fillStyle = colour('bad');
    pen.lineWidth = 2;
    let free = this.left;
    for (const [at, words] of this.data.timeline.recoveries) {
      if (at < this.view[0] || at > this.view[1]) continue;
      const x = Math.round(this.x(at)), wide = pen.measureText(words).width;
      pen.beginPath(); pen.moveTo(x, 18); pen.lineTo(x, this.high); pen.stroke();
      pen.beginPath(); pen.moveTo(x - 5, 16); pen.lineTo(x + 5, 16); pen.lineTo(x, 23); pen.fill();
      const from = Math.min(x + 8, this.left + this.wide - wide);
      if (from < free) continue;
      pen.clearRect(from - 2, 1, wide + 4, 15);
      pen.fillText(words, from, 9);
      free = from + wide + 10;
    }
    pen.lineWidth = 1;
  }

  drawTitles(pen) {
    pen.fillStyle = colour('quiet');
    for (const row of this.rows) {
      if (this.narrow) pen.fillText(row.title, this.left, row.y - 7);
      else pen.fillText(row.title, 0, row.y + row.high / 2, this.left - 8);
    }
    for (const panel of this.panels) {
      if (this.narrow) { pen.fillText(panel.title, this.left, panel.y - 7); continue; }
      pen.fillText(panel.title, 0, panel.y + 10, this.left - 8);
      pen.fillText(panel.more, 0, panel.y + 28, this.left - 8);
    }
    if (this.narrow) { pen.fillText('resident bytes', this.left, this.curve.y - 7); return; }
    pen.fillText('resident bytes', 0, this.curve.y + 10, this.left - 8);
    pen.fillText(units.bytes(this.top()) + ' at top', 0, this.curve.y + 28, this.left - 8);
  }

  fill(kind, name) {
    if (kind === 'wait') return colour('wait');
    if (kind === 'cpu') return colour('cpu');
    if (kind === 'suspended') return colour('discard');
    if (kind === 'signal') return colour('out');
    if (kind === 'ready') return colour('wait');
    if (kind === 'paging') return colour({ 'page in': 'in', 'fill and map': 'discard' }[this.data.timeline.names[name]] || 'out');
    return this.colours[name];
  }

  drawRow(pen, row) {
    pen.fillStyle = colour('idle');
    pen.fillRect(this.left, row.y, this.wide, row.high);
    const fills = new Map();
    for (const { kind, marks } of row.lists) {
      const from = first(marks, this.view[0]);
      const inset = kind === 'wait' ? 5 : 0;
      let painted = -1;
      for (let i = from; i < marks.length && marks[i][0] <= this.view[1]; i++) {
        const [begin, length, name, , count, busy] = marks[i];
        const x0 = this.x(begin), x1 = Math.max(x0 + .75, this.x(begin + length));
        if (x1 <= painted) continue;
        painted = x1 < x0 + 1 ? x1 : -1;
        const key = kind + name;
        if (!fills.has(key)) fills.set(key, this.fill(kind, name));
        pen.fillStyle = fills.get(key);
        // Several as one: as opaque as they were busy.
        pen.globalAlpha = count ? Math.max(.25, Math.min(1, busy / Math.max(1, length))) : 1;
        const gap = x1 - x0 > 3 ? .75 : 0;
        pen.fillRect(x0, row.y + inset, x1 - x0 - gap, row.high - 2 * inset);
        pen.globalAlpha = 1;
        this.label(pen, row, kind, name, count, x0, x1);
      }
    }
  }

  label(pen, row, kind, name, count, x0, x1) {
    const from = Math.max(x0, this.left), to = Math.min(x1, this.left + this.wide);
    if (to - from < 34) return;
    const text = count ? `${count} × …` : this.data.timeline.names[name];
    const room = Math.floor((to - from - 8) / 6.2);
    const cut = text.length > room ? text.slice(0, room - 1) + '…' : text;
    pen.fillStyle = '#fff';
    pen.font = '11px system-ui, sans-serif';
    pen.fillText(cut, from + 4, row.y + row.high / 2 + .5);
    pen.font = '12px system-ui, sans-serif';
  }

  top() {
    let top = this.data.limit_bytes || 1;
    for (const curve of this.data.resident) for (const point of curve.points) top = Math.max(top, point[1]);
    return top * 1.08;
  }

  drawCurve(pen, curve) {
    const { y, high } = this.curve, top = this.top(), bottom = y + high;
    const at = (bytes) => bottom - bytes / top * high;
    pen.beginPath();
    let x = this.x(0), level = bottom;
    pen.moveTo(x, bottom);
    for (const [time, bytes] of curve.points) {
      x = this.x(time);
      pen.lineTo(x, level);
      level = at(bytes);
      pen.lineTo(x, level);
    }
    const end = this.x(this.length);
    pen.lineTo(end, level);
    pen.strokeStyle = colour('in'); pen.lineWidth = 1.25; pen.stroke();
    pen.lineTo(end, bottom);
    pen.globalAlpha = .22; pen.fillStyle = colour('in'); pen.fill(); pen.globalAlpha = 1;
  }

  drawLimit(pen) {
    if (!this.data.limit_bytes) return;
    const y = Math.round(this.curve.y + this.curve.high * (1 - this.data.limit_bytes / this.top())) + .5;
    pen.strokeStyle = colour('wait'); pen.setLineDash([5, 4]); pen.lineWidth = 1;
    pen.beginPath(); pen.moveTo(this.left, y); pen.lineTo(this.left + this.wide, y); pen.stroke();
    pen.setLineDash([]);
    const text = 'limit ' + units.bytes(this.data.limit_bytes);
    const x = this.left + this.wide - pen.measureText(text).width - 10;
    pen.fillStyle = colour('card'); pen.globalAlpha = .85;
    pen.fillRect(x - 4, y + 3, pen.measureText(text).width + 8, 17); pen.globalAlpha = 1;
    pen.fillStyle = colour('wait');
    pen.fillText(text, x, y + 12);
  }

  zoom(factor, x) {
    const centre = x === undefined ? (this.view[0] + this.view[1]) / 2 : this.time(x);
    const span = Math.min(this.length, Math.max(50, (this.view[1] - this.view[0]) * factor));
    const share = (centre - this.view[0]) / (this.view[1] - this.view[0]);
    this.show(centre - share * span, span);
  }

  // Charts of the same time show the same part of it.
  show(begin, span) {
    begin = Math.max(0, Math.min(this.length - span, begin));
    for (const chart of [this, ...this.linked]) chart.place([begin, begin + span]);
  }

  place(view) {
    this.view = view;
    if (!this.pending) this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener('wheel', (e) => {
      e.preventDefault();
      const span = this.view[1] - this.view[0];
      if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.show(this.view[0] + e.deltaX / this.wide * span, span);
      else this.zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) * .004), e.offsetX);
    }, { passive: false });
    canvas.addEventListener('pointerdown', (e) => { canvas.setPointerCapture(e.pointerId); this.fingers.set(e.pointerId, e.offsetX); canvas.classList.add('held'); });
    canvas.addEventListener('pointermove', (e) => this.moved(e));
    for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, (e) => { this.fingers.delete(e.pointerId); canvas.classList.remove('held'); });
    canvas.addEventListener('pointerleave', () => { this.tip.style.display = 'none'; });
    canvas.addEventListener('dblclick', () => this.show(0, this.length));
    canvas.addEventListener('keydown', (e) => {
      const span = this.view[1] - this.view[0];
      const act = { ArrowLeft: () => this.show(this.view[0] - span / 5, span), ArrowRight: () => this.show(this.view[0] + span / 5, span), '+': () => this.zoom(.6), '-': () => this.zoom(1.6), 0: () => this.show(0, this.length) }[e.key];
      if (act) { e.preventDefault(); act(); }
    });
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
    dark.addEventListener('change', () => { this.colours = this.data.timeline.names.map(colourOfName); this.draw(); });
  }

  moved(e) {
    if (!this.fingers.has(e.pointerId)) { this.point(e.offsetX, e.offsetY); return; }
    const before = [...this.fingers.values()], old = this.fingers.get(e.pointerId);
    this.fingers.set(e.pointerId, e.offsetX);
    this.tip.style.display = 'none';
    const span = this.view[1] - this.view[0];
    if (before.length === 1) { this.show(this.view[0] + (old - e.offsetX) / this.wide * span, span); return; }
    const after = [...this.fingers.values()];
    const apart = (xs) => Math.max(12, Math.abs(xs[0] - xs[1]));
    this.zoom(apart(before) / apart(after), (after[0] + after[1]) / 2);
  }

  point(x, y) {
    const text = x < this.left ? '' : this.told(this.time(x), y);
    this.tip.style.display = text ? 'block' : 'none';
    if (!text) return;
    this.tip.textContent = text;
    const wide = this.tip.offsetWidth;
    this.tip.style.left = Math.max(0, Math.min(x + 14, this.left + this.wide - wide)) + 'px';
    this.tip.style.top = y + 16 + 'px';
  }

  told(time, y) {
    const near = 6 / this.wide * (this.view[1] - this.view[0]);
    const recovery = y < 26 && this.data.timeline.recoveries.find(([at]) => Math.abs(at - time) < near);
    if (recovery) return `${recovery[1]}\nat ${units.time(recovery[0])}`;
    if (y >= this.curve.y && y <= this.curve.y + this.curve.high) {
      return this.data.resident.map((curve) => {
        const i = last(curve.points, time);
        return `segment ${curve.segment}: ${i < 0 ? 'nothing yet' : units.bytes(curve.points[i][1]) + ' resident'}`;
      }).join('\n') + `\nat ${units.time(time)}`;
    }
    const panel = this.panels.find((panel) => y >= panel.y && y < panel.y + panel.high);
    if (panel) return panel.told(time, y);
    const row = this.rows.find((row) => y >= row.y && y <= row.y + row.high);
    const slack = 2 / this.wide * (this.view[1] - this.view[0]);
    for (const { kind, marks } of row ? [...row.lists].reverse() : []) {
      for (let i = Math.max(0, last(marks, time + slack)), n = 0; i >= 0 && n < 3; i--, n++) {
        const mark = marks[i];
        if (mark && mark[0] <= time + slack && mark[0] + mark[1] >= time - slack) return this.words(kind, mark);
      }
    }
    return '';
  }

  words(kind, [begin, length, name, bytes, count, busy]) {
    const what = this.data.timeline.names[name];
    const lines = count ? [`${units.grouped(count)} ${kind} slices as one mark`, `longest: ${what}`, `busy ${units.time(busy)} of ${units.time(length)}`] : [what, units.time(length)];
    if (bytes) lines.push(units.bytes(bytes));
    lines.push(`from ${units.time(begin)}`);
    return lines.join('\n');
  }
}

// Index of the first mark that may still be seen at `time`; of the last that began by then.
function last(list, time) {
  let low = 0, high = list.length;
  while (low < high) { const middle = (low + high) >> 1; if (list[middle][0] <= time) low = middle + 1; else high = middle; }
  return low - 1;
}
function first(list, time) { return Math.max(0, last(list, time)); }
