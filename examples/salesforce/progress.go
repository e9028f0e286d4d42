package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies/salesforce"
)

const (
	barEvery  = 250 * time.Millisecond
	lineEvery = 2 * time.Second
	barRest   = 32 // characters of a bar besides its description
)

// A line is the state at one instant.
type line struct {
	tally

	at      time.Time
	left    int64 // of the day, as the pacer knows it
	readers int64 // of that for the readers
	tenants []string
}

// now returns how things stand.
func (r *result) now(ctx context.Context, p *pacer.Pacer) (line, error) {
	l := line{tally: r.meter.tally(), at: time.Now(), tenants: r.tenants}
	status, err := p.Status(ctx, readersScopes(r.upstream)...)
	if err != nil {
		return l, err
	}
	for _, s := range status.Policies {
		switch s.Policy.Name() {
		case salesforce.PolicyDaily:
			l.left = s.Remaining
		case salesforce.PolicyShare:
			l.readers = s.Remaining
		}
	}
	l.readers = min(l.readers, l.left)
	return l, nil
}

// rate returns the calls per second of this copy since an earlier line.
func (l *line) rate(before *line) float64 {
	return float64(l.total-before.total) / max(time.Second, l.at.Sub(before.at)).Seconds()
}

// describe returns the state in words.
func (l *line) describe(before *line) string {
	return fmt.Sprintf("%4.1f calls/s; %d of %d used, %d left, %d for readers; %s; longest wait %s; 403s %d",
		l.rate(before), l.used, l.limit, l.left, l.readers, l.callers(), ms(l.longest), l.refused)
}

// brief returns the same in fewer words.
func (l *line) brief(before *line) string {
	return fmt.Sprintf("%4.1f/s, %d left (%d), wait %s, %s", l.rate(before), l.left, l.readers, ms(l.longest), l.callers())
}

// callers returns who has made how many calls.
func (l *line) callers() string {
	by := append(slices.Clone(l.tenants), interactive)
	for i, caller := range by {
		by[i] = fmt.Sprintf("%s %d", caller, l.calls[caller])
	}
	return strings.Join(by, ", ")
}

// progress shows how much of the day is used and left, until the context ends: as a bar on a terminal, else as a line now and then.
func progress(ctx context.Context, out io.Writer, allocation int, now func() (line, error)) {
	began := time.Now()
	every, show := lineEvery, func(l, before *line) {
		_, _ = fmt.Fprintf(out, "%3.0fs: %s\n", l.at.Sub(began).Seconds(), l.describe(before))
	}
	if isTerminal(out) {
		bar := progressbar.NewOptions(allocation,
			progressbar.OptionSetWriter(out),
			progressbar.OptionSetWidth(10),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetTheme(progressbar.ThemeUnicode),
		)
		defer func() { _ = bar.Clear() }()
		every, show = barEvery, func(l, before *line) {
			bar.Describe(cut(l.brief(before), width(out)-barRest))
			_ = bar.Set(min(l.used, allocation-1))
		}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	past := []line{{at: began}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l, err := now()
			if err != nil {
				continue
			}
			for len(past) > 1 && l.at.Sub(past[1].at) >= time.Second {
				past = past[1:]
			}
			first := past[0]
			past = append(past, l)
			show(&l, &first)
		}
	}
}

// isTerminal reports whether someone can watch.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width returns the width of a terminal.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 80
}

// cut shortens a text to a line.
func cut(s string, most int) string {
	if rs := []rune(s); len(rs) > max(1, most) {
		return string(rs[:max(1, most)-1]) + "…"
	}
	return s
}
