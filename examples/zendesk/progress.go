package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const (
	barEvery  = 250 * time.Millisecond
	lineEvery = 2 * time.Second
)

// A reading is the number of calls at some time.
type reading struct {
	at    time.Time
	calls int
}

// progress shows, until the context ends, the time and the calls per second against the limit: as a bar on a terminal, else as a line now
// and then.
func progress(ctx context.Context, out io.Writer, total time.Duration, limit float64, calls func() (int, bool)) {
	began := time.Now()
	every, show := lineEvery, func(elapsed time.Duration, rate float64) {
		_, _ = fmt.Fprintf(out, "%3.0fs of %s: %.1f calls/s, limit %.1f\n", elapsed.Seconds(), total, rate, limit)
	}
	if isTerminal(out) {
		bar := progressbar.NewOptions64(total.Milliseconds(),
			progressbar.OptionSetWriter(out),
			progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetTheme(progressbar.ThemeUnicode),
		)
		defer func() { _ = bar.Clear() }()
		every, show = barEvery, func(elapsed time.Duration, rate float64) {
			bar.Describe(fmt.Sprintf("%5.1f calls/s, limit %.1f", rate, limit))
			_ = bar.Set64(min(elapsed.Milliseconds(), total.Milliseconds()-1))
		}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	past := []reading{{at: began}}
	if n, ok := calls(); ok {
		past[0].calls = n
	}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			n, ok := calls()
			if !ok {
				continue
			}
			for len(past) > 1 && now.Sub(past[1].at) >= time.Second {
				past = past[1:]
			}
			first := past[0]
			past = append(past, reading{now, n})
			show(now.Sub(began), float64(n-first.calls)/max(time.Second, now.Sub(first.at)).Seconds())
		}
	}
}

// isTerminal reports whether someone can watch.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
