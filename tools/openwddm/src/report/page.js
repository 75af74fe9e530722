'use strict';
// Builds the page from the data block. Text goes in as text, never as markup.

const data = JSON.parse(document.getElementById('data').textContent);
const s = data.summary;
const at = (id) => document.getElementById(id);
const adapterName = s.adapter === data.profile ? s.adapter : `${s.adapter} (${data.profile})`;

function element(kind, className, ...children) {
  const node = document.createElement(kind);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

function headline() {
  const ran = s.ideal_ns && s.elapsed_ns && !s.adapters ? `ran at ${units.percent(s.ideal_ns, s.elapsed_ns)} of its ideal speed` : 'ran';
  at('headline').textContent = `${s.workload} ${ran} in ${units.percent(s.vram_bytes, s.peak_bytes)} of the memory it needs`;
  at('what').textContent = `${units.grouped(s.ops)} operations in ${s.steps} ${s.steps === 1 ? 'step' : 'steps'} on ${adapterName}, ${s.time} time, policy ${s.policy}`;
  document.title = `openwddm: ${s.workload}`;
  const warn = (text) => at('warnings').append(element('span', 'warning', text));
  if (data.interrupted) warn('The run was interrupted. Everything here is what was reached until then.');
  for (const [name, said] of data.imports.filter(([, said]) => said.includes('left out'))) warn(`${name}: ${said}`);
  if (s.verify !== 'ok' && s.verify !== 'off') warn('Contents did not match: ' + s.verify);
  for (const [what, times] of Object.entries(data.summary.log_faults)) {
    warn(`Logs: ${what} (${units.grouped(times)}). What engines did then is not in the timeline.`);
  }
  const dropped = data.views.reduce((sum, view) => sum + view.dropped, 0);
  if (dropped) warn(`${units.grouped(dropped)} records were left out because the recording reached its limit. Timeline and lists are incomplete; the headline numbers are not.`);
  for (const node of at('warnings').children) node.style.display = 'block';
}

function card(name, value, more, parts) {
  const node = element('div', 'card', element('div', 'name', name), value instanceof Node ? value : element('div', 'value', value), element('div', 'more', more));
  if (parts) {
    const meter = element('div', 'meter');
    for (const [share, colourName] of parts) {
      const part = element('span');
      part.style.width = Math.max(0, Math.min(100, share * 100)) + '%';
      part.style.background = `var(--${colourName})`;
      meter.append(part);
    }
    node.append(meter);
  }
  at('cards').append(node);
}

function cards() {
  const share = (part, whole) => (whole > 0 ? part / whole : 0);
  const signals = s.interrupts_raised + s.interrupts_suppressed;
  card('Video memory', units.bytes(s.vram_bytes), `${units.percent(s.vram_bytes, s.peak_bytes)} of the peak, ${units.bytes(s.peak_bytes)}`, [[share(s.vram_bytes, s.peak_bytes), 'accent']]);
  card('Paged in', units.bytes(s.paged_in_bytes), `${units.grouped(s.paged_in_bytes)} bytes`);
  card('Paged out', units.bytes(s.paged_out_bytes), `and ${units.bytes(s.discarded_bytes)} discarded without a copy`);
  if (s.adapters) {
    const arrived = s.adapters.reduce((sum, adapter) => sum + adapter.arrived_bytes, 0);
    card('Crossed', units.bytes(arrived), `from adapter to adapter, in ${units.time(s.elapsed_ns)}`);
  } else if (!s.seen_by) card('Stalled on paging', units.time(s.stall_ns), `${units.percent(s.stall_ns, s.elapsed_ns)} of ${units.time(s.elapsed_ns)}`, [[share(s.stall_ns, s.elapsed_ns), 'wait']]);
  if (!s.seen_by) card('Interrupts suppressed', units.percent(s.interrupts_suppressed, signals), `${units.grouped(s.interrupts_raised)} raised, ${units.grouped(s.interrupts_suppressed)} not needed`, [[share(s.interrupts_suppressed, signals), 'good']]);
  const verdict = { ok: ['Verified', 'good', 'every byte as it should be'], off: ['Not checked', '', s.time === 'virtual' ? 'virtual time stores no bytes' : 'run with --verify to check every byte'] }[s.verify] || ['Mismatch', 'bad', s.verify];
  card('Contents', element('div', 'value ' + verdict[1], verdict[0]), verdict[2]);
}

function legend(id, entries) {
  for (const [name, colourName] of entries) {
    const patch = element('i');
    patch.style.background = colourName.startsWith('--') ? `var(${colourName})` : colourName;
    at(id).append(element('span', '', patch, name));
  }
}

// What is shown once for each adapter stands under its name, if there are several.
function eachView(id, build) {
  data.views.forEach((view, number) => {
    if (data.views.length > 1) at(id).append(element('h3', '', `adapter ${number}: ${view.adapter}`));
    build(view, number);
  });
}

function place(id, className) {
  const node = element('div', className);
  node.id = `${id}-${at(id).childElementCount}`;
  at(id).append(node);
  return node.id;
}

function timeline() {
  const charts = [];
  eachView('charts', (view, number) => {
    const canvas = element('canvas'), tip = element('div', 'tip'), frame = element('div', 'frame', canvas, tip);
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `Timeline of engines, queues, paging, waits and resident memory of adapter ${number}`);
    tip.setAttribute('role', 'status');
    at('charts').append(frame);
    charts.push(new Chart(canvas, tip, at('range'), view));
  });
  for (const chart of charts) chart.linked = charts.filter((other) => other !== chart);
  const chart = charts[0];
  at('closer').onclick = () => chart.zoom(.5);
  at('farther').onclick = () => chart.zoom(2);
  at('all').onclick = () => chart.show(0, chart.length);
  const has = (kind) => data.views.some((view) => view.timeline.rows.some((row) => row.kind === kind));
  const holders = [...new Set(data.views.flatMap((view) => view.memory.holdings.map((holding) => holding.process)))].sort((a, b) => a - b);
  legend('legend', [['operation or command (shade by name)', 'hsl(150 36% 48%)'], ['waits for a fence', '--wait'], ['page in', '--in'], ['page out, or both', '--out'], ['fill and map', '--discard'], ['CPU wait', '--cpu'], ...(has('logs') ? [['signals a fence, from its log', '--out']] : []), ...(has('ready') ? [['context waits for the engine', '--wait']] : []), ...(data.views.some((view) => view.timeline.recoveries.length) ? [['recovery, or entries of logs that were lost', '--bad']] : []), ...(has('suspended') ? [['suspended', '--discard']] : []), ...holders.map((process) => [`memory of process ${process}`, colourOfProcess(process, holders)])]);
  at('thinned').textContent = data.views.flatMap(thinned).join(' ');
}

// What a view does not show.
function thinned(view) {
  const t = view.timeline;
  const notes = [];
  if (t.merged_ns) notes.push(`${units.grouped(t.total)} slices are drawn as ${units.grouped(t.shown)} marks: neighbours within ${units.time(t.merged_ns)} became one mark, paler the less of it was busy. The trace file has every slice.`);
  if (t.deeper) notes.push(`${units.grouped(t.deeper)} slices lie below the lanes that are drawn of a row, because so much was under way at once. The trace file has them.`);
  for (const curve of view.resident) if (curve.points.length < curve.points_total) notes.push(`The curve of segment ${curve.segment} keeps ${units.grouped(curve.points.length)} of ${units.grouped(curve.points_total)} points, among them every stretch's lowest and highest.`);
  for (const map of view.memory.maps) if (map.boxes.length < map.total) notes.push(`The map of segment ${map.segment} shows the ${units.grouped(map.boxes.length)} largest of ${units.grouped(map.total)} residences, ${100 - map.left_out / 10} % of what all of them cover.`);
  return data.views.length > 1 && notes.length ? [`Of ${view.adapter}:`, ...notes] : notes;
}

function drawing(kind, attributes, text) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', kind);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const STEP_BARS_MAX = 80;

// With stages that were asked for: what the same work costs at each.
function stages() {
  if (!s.stages) { at('stages-section').remove(); return; }
  const times = (field) => (row) => units.grouped(row[field]);
  const spent = (field) => (row) => units.time(row[field]);
  table('stages', [['stage', false, (r) => r.stage], ['submissions', true, times('submissions')], ['calls into the kernel', true, times('calls')], ['CPU time', true, spent('cpu_ns')], ['interrupts', true, times('interrupts')], ['submitted to known', true, spent('round_trip_ns')], ['elapsed', true, spent('elapsed_ns')]], s.stages, '');
}

// With several adapters: what each did.
function adapters() {
  if (!s.adapters) { at('adapters-section').remove(); return; }
  const bytes = (field) => (row) => (row[field] ? units.bytes(row[field]) : '–');
  const times = (field) => (row) => units.grouped(row[field]);
  const spent = (field) => (row) => units.time(row[field]);
  table('adapters', [['adapter', false, (r) => `${r.adapter}: ${r.profile}`], ['stage', false, (r) => r.stage], ['video memory', true, bytes('vram_bytes')], ['operations', true, times('ops')], ['came from others', true, bytes('arrived_bytes')], ['paged in', true, bytes('paged_in_bytes')], ['paged out', true, bytes('paged_out_bytes')], ['worked', true, spent('busy_ns')], ['waited', true, spent('wait_ns')], ['interrupts', true, times('interrupts_raised')]], s.adapters, '');
}

// With several processes each has its own steps, so the page shows which process displaced memory of which instead.
function processes() {
  if (!s.processes) { at('processes-section').remove(); return; }
  at('steps-section').remove();
  const bytes = (field) => (row) => (row[field] ? units.bytes(row[field]) : '–');
  const verdict = (row) => ({ ok: 'verified', off: 'not checked' }[row.verify] || row.verify);
  table('processes', [['process', false, (r) => `${r.process}: ${r.workload}`], ['priority', false, (r) => r.priority], ['budget', true, bytes('budget_bytes')], ['peak', true, bytes('peak_bytes')], ['paged in', true, bytes('paged_in_bytes')], ['paged out', true, bytes('paged_out_bytes')], ['discarded', true, bytes('discarded_bytes')], ['time', true, (r) => units.time(r.elapsed_ns)], ['contents', false, verdict]], s.processes, '');
  table('displaced', [['victim', false, (r) => `process ${r.victim}`], ['asker', false, (r) => (r.victim === r.requester ? 'itself' : `process ${r.requester}`)], ['bytes', true, bytes('bytes')]], s.displaced, 'No memory was displaced.');
}

// What the kernel foresaw, and what LRU would have moved in the same memory.
function plan() {
  if (!data.plan.length) { at('plan-section').remove(); return; }
  table('plan', [['', false, (r) => r[0].trim()], ['', false, (r) => r[1]]], data.plan, '');
}

function steps() {
  if (!at('steps')) return;
  let list = s.per_step;
  if (!list.length) { at('steps').append(element('p', 'quiet', 'No step was completed.')); return; }
  const group = Math.ceil(list.length / STEP_BARS_MAX);
  const fields = ['paged_in_bytes', 'paged_out_bytes', 'discarded_bytes'];
  const bars = [];
  for (let i = 0; i < list.length; i += group) {
    const part = list.slice(i, i + group);
    bars.push({ from: part[0].step, to: part[part.length - 1].step, values: fields.map((f) => part.reduce((sum, step) => sum + step[f], 0) / part.length) });
  }
  const phone = innerWidth < 700;
  const wide = phone ? 420 : 1100, high = 210, left = 72, bottom = 24, top = 10;
  const most = Math.max(1, ...bars.flatMap((bar) => bar.values));
  const svg = drawing('svg', { viewBox: `0 0 ${wide} ${high}`, role: 'img', 'aria-label': 'Paged bytes per step' });
  for (let i = 0; i <= 4; i++) {
    const y = top + (high - top - bottom) * (1 - i / 4);
    svg.append(drawing('line', { x1: left, x2: wide, y1: y, y2: y, stroke: 'var(--line)' }));
    svg.append(drawing('text', { x: left - 8, y: y + 4, 'text-anchor': 'end' }, units.bytes(Math.round(most * i / 4))));
  }
  const cell = (wide - left) / bars.length, bar = Math.min(56, cell * .8 / 3);
  bars.forEach((entry, index) => {
    const middle = left + cell * (index + .5);
    entry.values.forEach((value, field) => {
      const tall = (high - top - bottom) * value / most;
      const rect = drawing('rect', { x: middle + (field - 1.5) * bar, y: high - bottom - tall, width: Math.max(.6, bar - (bar > 4 ? 2 : 0)), height: tall, rx: bar > 8 ? 2 : 0, fill: `var(--${['in', 'out', 'discard'][field]})` });
      rect.append(drawing('title', {}, `${['paged in', 'paged out', 'discarded'][field]}: ${units.bytes(Math.round(value))}`));
      svg.append(rect);
    });
    const every = Math.ceil(bars.length / (phone ? 6 : 16));
    if (index % every === 0) svg.append(drawing('text', { x: middle, y: high - 7, 'text-anchor': 'middle' }, entry.from === entry.to ? `step ${entry.from}` : `${entry.from}–${entry.to}`));
  });
  at('steps').append(svg);
  if (group > 1) at('steps').append(element('p', 'quiet', `Each group of bars is the mean of ${group} steps.`));
  legend('steps-legend', [['paged in', '--in'], ['paged out', '--out'], ['discarded', '--discard']]);
  if (list.some((step) => step.lru_bytes !== undefined)) {
    const lru = (step) => `${units.grouped(step.step)}: ${units.bytes(step.paged_in_bytes + step.paged_out_bytes)} of ${units.bytes(step.lru_bytes)}`;
    at('steps').append(element('p', 'quiet', `Moved by step, of what LRU would have moved: ${list.slice(0, STEPS_SAID_MAX).map(lru).join('; ')}${list.length > STEPS_SAID_MAX ? '; …' : ''}.`));
  }
}

const ROWS_FIRST = 15;
const STEPS_SAID_MAX = 8;

// The first step also brings what is there before; the last one is what a further step takes, where the recording says its ideal.
// The bound beside the bytes that moved, where the run knows it.
function fewest(s, exact) {
  if (s.fewest_bytes === undefined) return [];
  const moved = s.paged_in_bytes + s.paged_out_bytes + (s.in_place_bytes ?? 0);
  const times = s.fewest_bytes ? `; the run moved ${(moved / s.fewest_bytes).toFixed(2)} times as much` : '';
  return [['fewest possible', `${exact(s.fewest_bytes)} in and out${times}`]];
}

function lastStep(s) {
  const last = s.per_step.length > 1 ? s.per_step[s.per_step.length - 1] : {};
  if (last.ideal_ns === undefined) return [];
  return [['last step', `${units.time(last.elapsed_ns)}, ${units.percent(last.ideal_ns, last.elapsed_ns)} of its ideal ${units.time(last.ideal_ns)}`]];
}

// A table; `columns` are [title, is it a number, row → text]. Long ones open on demand.
function table(id, columns, rows, empty) {
  if (!rows.length) { at(id).append(element('p', 'quiet', empty)); return; }
  const cells = (kind, texts) => element('tr', '', ...texts.map((text, i) => element(kind, columns[i][1] ? 'n' : '', text)));
  const body = element('tbody');
  const add = (from, to) => { for (const row of rows.slice(from, to)) body.append(cells('td', columns.map((column) => column[2](row)))); };
  add(0, ROWS_FIRST);
  const head = columns.some((column) => column[0]) ? [element('thead', '', cells('th', columns.map((column) => column[0])))] : [];
  at(id).append(element('table', '', ...head, body));
  if (rows.length > ROWS_FIRST) {
    const button = element('button', 'more-rows', `Show ${units.grouped(rows.length - ROWS_FIRST)} more`);
    button.type = 'button';
    button.onclick = () => { add(ROWS_FIRST, rows.length); button.remove(); };
    at(id).append(button);
  }
}

function tables() {
  const cut = (shown, total, what) => (shown < total ? `${units.grouped(shown)} of ${units.grouped(total)} ${what}, the largest.` : `${units.grouped(total)} ${what}.`);
  const bytes = (field) => (row) => (row[field] ? units.bytes(row[field]) : '–');
  const times = (field) => (row) => units.grouped(row[field]);
  eachView('causes', ({ movers }) => table(place('causes', ''), [['how', false, (r) => r.how], ['why', false, (r) => r.why], ['bytes', true, bytes('bytes')], ['times', true, times('times')]], movers.causes, 'Nothing moved.'));
  const tables = [['leaf table converted', s.tables_converted_by_cause], ['process suspended', s.stood_still_by_cause], ['recovery', s.recoveries], ['logs', s.log_faults]];
  table('page-tables', [['what', false, (r) => r[0]], ['why', false, (r) => r[1]], ['times', true, (r) => units.grouped(r[2])]], tables.flatMap(([what, causes]) => Object.entries(causes).map(([why, times]) => [what, why, times])), 'No table was converted, and no process was suspended for its tables.');
  const pairs = [['fence signals', s.fence_signals], ['GPU waits', s.gpu_waits], ['CPU waits', s.cpu_waits], ['interrupts raised', s.interrupts_raised], ['interrupts suppressed', s.interrupts_suppressed], ['dispatches that released a wait', s.interrupt_dispatches_releasing]];
  table('fences', [['', false, (r) => r[0]], ['', true, (r) => units.grouped(r[1])]], s.seen_by ? [] : pairs, s.seen_by ? 'The daemon has the figures of the device.' : '');
  eachView('movers', ({ movers: m }) => {
    at('movers').append(element('p', 'quiet', cut(m.allocations.length, m.allocations_total, 'allocations that moved after their first commit')));
    table(place('movers', 'scroll'), [['allocation', false, (r) => '#' + r.allocation], ['size', true, bytes('size_bytes')], ['paged in', true, bytes('in_bytes')], ['paged out', true, bytes('out_bytes')], ['discarded', true, bytes('discarded_bytes')], ['times in', true, times('times_in')], ['times out', true, times('times_out')]], m.allocations, 'No allocation moved after its first commit: everything fits.');
  });
  const who = (allocation, process) => '#' + allocation + (process === null ? '' : ` (process ${process})`);
  eachView('evictions', ({ movers: m }) => {
    at('evictions').append(element('p', 'quiet', cut(m.evictions.length, m.evictions_total, 'evictions, in order of time')));
    table(place('evictions', 'scroll'), [['at', true, (r) => units.time(r.at_ns)], ['victim: who gave', false, (r) => who(r.victim, r.victim_process)], ['asker: who asked', false, (r) => (r.asker === null ? 'its owner' : who(r.asker, r.asker_process))], ['bytes', true, bytes('bytes')], ['took', true, (r) => (r.took_ns === null ? '–' : units.time(r.took_ns))], ['how', false, (r) => r.how], ['cause', false, (r) => r.why]], m.evictions, 'Nothing was evicted.');
  });
  const exact = (n) => `${units.bytes(n)} (${units.grouped(n)} bytes)`;
  const run = [['workload', s.workload], ['adapter', adapterName], ['time', s.time], ['stage', s.stage], ...(s.seen_by ? [['seen by', 'the client: the events of its own processes; figures of the device and of other processes are the daemon\'s']] : []), ['policy', s.policy], ['seed', String(s.seed)], ['steps, operations', `${units.grouped(s.steps)}, ${units.grouped(s.ops)}`], ['peak', exact(s.peak_bytes)], ['video memory', exact(s.vram_bytes)], ['paged in', exact(s.paged_in_bytes)], ['paged out', exact(s.paged_out_bytes)], ...(s.in_place_bytes ? [['used in place', exact(s.in_place_bytes)]] : []), ...fewest(s, exact), ['discarded', exact(s.discarded_bytes)], ['filled at first commit', exact(s.filled_bytes)], ['elapsed', units.time(s.elapsed_ns)], ...(s.adapters || s.seen_by ? [] : [['ideal', units.time(s.ideal_ns)], ['stalled', units.time(s.stall_ns)]]), ...(s.adapters ? [] : lastStep(s)), ...(s.link_bytes_per_us ? [['link', `${units.grouped(s.link_bytes_per_us)} MB/s each way, both ways at once`]] : []), ...(s.seen_by ? [] : [['trace hash', s.trace_hash]]), ...data.imports.map(([name, said]) => [`recording ${name}`, said])];
  table('run', [['', false, (r) => r[0]], ['', false, (r) => r[1]]], run, '');
  const rest = at('run').querySelector('button');
  if (rest) rest.click();
}

headline();
cards();
timeline();
stages();
adapters();
processes();
steps();
plan();
tables();
