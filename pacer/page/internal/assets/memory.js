// What the page remembers of the last minute, beside what each message says: how many waited, what was left, and pauses.
// Times are in seconds, by the store's clock.

const span = 60;

// A Track remembers a number that changes.
export class Track {
  times = [];
  values = [];

  // add remembers a value; null if it is not known.
  add(at, value) {
    if (at < this.times.at(-1)) this.times.length = this.values.length = 0; // the clock went back
    if (at === this.times.at(-1)) this.values[this.values.length - 1] = value;
    else {
      this.times.push(at);
      this.values.push(value);
    }
    const old = this.times.findIndex((t) => t >= at - span - 2);
    if (old > 0) {
      this.times.splice(0, old);
      this.values.splice(0, old);
    }
  }

  data() {
    return [this.times, this.values];
  }
}

// Pauses remembers when no call started.
export class Pauses {
  bands = [];

  // add says that there are so many seconds of a pause left; 0 if there is none.
  add(at, left) {
    if (this.bands.some((b) => b.from > at)) this.bands.length = 0; // the clock went back
    const last = this.bands.at(-1);
    if (left > 0) {
      if (last?.open) last.to = at + left;
      else this.bands.push({ from: at, to: at + left, open: true });
    } else if (last?.open) {
      last.to = Math.min(last.to, at);
      last.open = false;
    }
    while (this.bands.length && this.bands[0].to < at - span) this.bands.shift();
  }
}

// seconds returns the times at which the seconds of a history begin.
export function seconds(view, history) {
  const end = Date.parse(view.counted) / 1000;
  return history.map((_, i) => end - history.length + i);
}
