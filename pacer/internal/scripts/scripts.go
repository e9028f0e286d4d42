// Package scripts joins the scripts of a Redis store from the fragments of package luascripts, with the numbers of package numbers.
package scripts

import (
	"strconv"
	"strings"
	"sync"

	"github.com/headway-go/headway/luascripts"
	"github.com/headway-go/headway/pacer/internal/numbers"
)

// The scripts of a store.
const (
	Reserve = iota
	Cancel
	Report
	Status
	Heartbeat
	Describe // and the next three: who paces what
	Index
	Enlist
	Upstreams
	Settings // reads and writes operators' settings
	Redeem   // replaces the records of bookings
	Ready    // tries what the others do
	Count    // how many there are
)

// Scripts are the programs of one store.
type Scripts [Count]string

// New returns the scripts with the server's clock.
func New() Scripts { return withServersClock() }

var withServersClock = sync.OnceValue(func() Scripts { return WithClock(fragment("clock")) }) //nolint:gochecknoglobals // a cache of a pure function

// WithClock returns the scripts with another clock than clock.lua: source that defines the local functions clock() and ttl(us). It is for
// tests in which time stands still.
func WithClock(clock string) Scripts {
	named := numbers.Named()
	source := func(source string) string { return program(source, named) }
	read := func(name string) string { return source(fragment(name)) }
	define := func(name string, files ...string) string {
		var body strings.Builder
		for _, file := range files {
			body.WriteString(fragment(file))
		}
		return source("define" + name + " = function()\n" + body.String() + "\nend")
	}
	algorithms := define("[C.GCRA]", "pace", "starts", "gcra", "heed") +
		source("define[C.AnyRate] = define[C.GCRA]") +
		define("[C.Window]", "window", "floor", "window_heed") + source("define[C.Part] = define[C.Window]") +
		define("[C.Allowance]", "allowance") + define("[C.Concurrency]", "concurrency") + define(".queue", "queue")
	clock = source(clock)
	shared, accounts := clock+read("list"), read("charge")+read("account")
	join := func(definitions, command string) string { return shared + accounts + definitions + read(command) }
	return Scripts{
		Reserve:   shared + read("quick_window") + read("quick") + accounts + algorithms + define(".queued", "queued") + read("reserve"),
		Cancel:    join(algorithms, "cancel"),
		Report:    join(algorithms, "report"),
		Status:    join(algorithms, "status"),
		Heartbeat: join(algorithms, "heartbeat"),

		Describe:  join("", "describe"),
		Index:     join("", "index"),
		Settings:  join("", "settings"),
		Redeem:    join(algorithms, "redeem"),
		Enlist:    clock + read("enlist"),
		Upstreams: clock + read("upstreams"),

		Ready: read("ready"),
	}
}

// fragment returns the source of a fragment.
func fragment(name string) string {
	source, err := luascripts.Files.ReadFile(name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(source)
}

// program makes a part of a script from its source. It drops whole-line comments and blank lines, which the server would have to keep and a
// first EVAL to send, and replaces C.Name by the numbers of package numbers: so a run of a script spends nothing on them, and the script is
// the same in every process. Each part is read once, because every process does that when it starts.
func program(source string, named map[string]int64) string {
	b := make([]byte, 0, len(source))
	for line := range strings.Lines(source) {
		t := strings.TrimSpace(line)
		if t == "" || strings.HasPrefix(t, "--") {
			continue
		}
		for at := strings.Index(t, "C."); at >= 0; at = strings.Index(t, "C.") {
			end := at + len("C.")
			for end < len(t) && isWord(t[end]) {
				end++
			}
			b = append(b, t[:at]...)
			switch n, ok := named[t[at+len("C."):end]]; {
			case at > 0 && isWord(t[at-1]): // of a longer word
				b = append(b, t[at:end]...)
			case !ok:
				panic("scripts: package numbers has no " + t[at:end])
			default:
				b = strconv.AppendInt(b, n, 10)
			}
			t = t[end:]
		}
		b = append(append(b, t...), '\n')
	}
	return string(b)
}

// isWord reports whether a byte can be in a name.
func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
