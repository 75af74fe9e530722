'use strict';
// Panels below the timeline, over the same axis of time: the pages of each segment, and what each process holds.

// Processes have colours that are told apart; with one process its allocations have them.
const processColours = ['--in', '--out', '--cpu', '--good', '--wait', '--discard'];
function colourOfProcess(process, processes) {
  const place = processes.indexOf(process);
  return processColours[(place < 0 ? processes.length : place) % processColours.length];
}

function colourOfAllocation(allocation) {
  const hash = Math.imul(allocation, 2654435761) >>> 0;
  return `hsl(${hash % 360} ${dark.matches ? 34 : 42}% ${(dark.matches ? 40 : 58) + (hash >> 9) % 3 * 5}%)`;
}

class MapPanel {
  constructor(map, processes) {
    Object.assign(this, { map, processes, high: 150 });
    this.title = `segment ${map.segment}`;
    this.more = units.bytes(map.pages * 4096);
    this.longest = map.boxes.reduce((longest, box) => Math.max(longest, box[1]), 0);
  }

  colour(box) {
    return this.processes.length > 1 ? colour(colourOfProcess(box[5], this.processes).slice(2)) : colourOfAllocation(box[4]);
  }

  draw(pen, chart) {
    pen.fillStyle = colour('idle');
    pen.fillRect(chart.left, this.y, chart.wide, this.high);
    for (let i = first(this.map.boxes, chart.view[0] - this.longest); i < this.map.boxes.length; i++) {
      const [begin, length, page, pages] = this.map.boxes[i];
      if (begin > chart.view[1]) break;
      if (begin + length < chart.view[0]) continue;
      const x0 = chart.x(begin), x1 = chart.x(begin + length), y0 = this.at(page), y1 = this.at(page + pages);
      pen.fillStyle = this.colour(this.map.boxes[i]);
      const gapX = x1 - x0 > 3 ? .75 : 0, gapY = y1 - y0 > 4 ? .75 : 0;
      pen.fillRect(x0, y0, Math.max(.75, x1 - x0 - gapX), Math.max(.5, y1 - y0 - gapY));
    }
  }

  at(page) { return this.y + page / Math.max(1, this.map.pages) * this.high; }

  told(time, y) {
    const page = (y - this.y) / this.high * this.map.pages, half = this.map.pages / this.high / 2;
    const hit = this.map.boxes.filter(([begin, length, from, pages]) => begin <= time && time < begin + length && from - half <= page && page < from + pages + half).pop();
    const place = `page ${units.grouped(Math.max(0, Math.floor(page)))} of segment ${this.map.segment}\nat ${units.time(time)}`;
    if (!hit) return `free, or too small to draw\n${place}`;
    const [begin, length, from, pages, allocation, process] = hit;
    return `allocation #${allocation} of process ${process}\n${units.bytes(pages * 4096)} from page ${units.grouped(from)}\nthere for ${units.time(length)}, from ${units.time(begin)}\nat ${units.time(time)}`;
  }
}

class HoldingsPanel {
  constructor(holdings) {
    Object.assign(this, { holdings, high: 110 });
    this.processes = holdings.map((holding) => holding.process);
    this.title = 'held by process';
    this.top = 1;
    for (const { points, budget } of holdings) for (const [, bytes] of [...points, ...budget]) this.top = Math.max(this.top, bytes);
    this.more = units.bytes(this.top) + ' at top';
  }

  draw(pen, chart) {
    pen.fillStyle = colour('idle');
    pen.fillRect(chart.left, this.y, chart.wide, this.high);
    for (const { process, points, budget } of this.holdings) {
      pen.strokeStyle = colour(colourOfProcess(process, this.processes).slice(2));
      pen.lineWidth = 1.5;
      this.line(pen, chart, points);
      pen.setLineDash([5, 4]);
      pen.lineWidth = 1;
      this.line(pen, chart, budget);
      pen.setLineDash([]);
    }
  }

  line(pen, chart, points) {
    if (!points.length) return;
    const at = (bytes) => this.y + this.high - 1 - bytes / this.top / 1.06 * (this.high - 2);
    pen.beginPath();
    let level = at(points[0][1]);
    pen.moveTo(chart.x(points[0][0]), level);
    for (const [time, bytes] of points) {
      pen.lineTo(chart.x(time), level);
      level = at(bytes);
      pen.lineTo(chart.x(time), level);
    }
    pen.lineTo(chart.x(chart.length), level);
    pen.stroke();
  }

  told(time) {
    const now = (points) => { const i = last(points, time); return i < 0 ? null : points[i][1]; };
    return this.holdings.map(({ process, points, budget }) => {
      const limit = now(budget);
      return `process ${process}: ${units.bytes(now(points) || 0)}${limit === null ? '' : ' of a budget of ' + units.bytes(limit)}`;
    }).join('\n') + `\nat ${units.time(time)}`;
  }
}

function memoryPanels(memory) {
  const processes = memory.holdings.map((holding) => holding.process);
  const maps = memory.maps.map((map) => new MapPanel(map, processes));
  return memory.holdings.length ? [...maps, new HoldingsPanel(memory.holdings)] : maps;
}
