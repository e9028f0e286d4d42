// Package luascripts is the Redis store's program: Lua for Redis and Valkey, in fragments that pacer/internal/scripts joins.
//
// Each command (reserve, cancel, report, status, heartbeat, describe, index, enlist, upstreams, settings,
// redeem, ready) is a file whose head is its
// contract: KEYS, ARGV with units, reply, TTL. The fragments before it are shared: the clock, what the algorithms have in common, and
// one file for each algorithm. The value of an account's key begins with the shape of the limit that last changed it; account.lua has the
// grammar, and what happens when policies change. The scripts need Redis 6.2 or Valkey, and no library beyond string and math.
//
// A server runs a whole script for each EVALSHA, definitions included, and those of all functions would take longer than
// most decisions. So the common case comes first (quick.lua), and an algorithm is defined when a run meets it; what is rare of
// a window, when a run needs it.
package luascripts

import "embed"

	"github.com/headway-go/headway/luascripts/numbers"
)

//go:embed clock.lua
var clock string

//go:embed charge.lua
var charge string

//go:embed list.lua
var list string

//go:embed quick.lua
var quick string

//go:embed account.lua
var account string

//go:embed pace.lua
var pace string

//go:embed starts.lua
var starts string

//go:embed gcra.lua
var gcra string

//go:embed heed.lua
var heed string

//go:embed window.lua
var window string

//go:embed allowance.lua
var allowance string

//go:embed queue.lua
var queue string

//go:embed concurrency.lua
var concurrency string

//go:embed queued.lua
var queued string

//go:embed reserve.lua
var reserve string

//go:embed cancel.lua
var cancel string

//go:embed report.lua
var report string

//go:embed status.lua
var status string

//go:embed heartbeat.lua
var heartbeat string

//go:embed describe.lua
var describe string

//go:embed index.lua
var index string

//go:embed enlist.lua
var enlist string

//go:embed upstreams.lua
var upstreams string

//go:embed settings.lua
var settings string

//go:embed redeem.lua
var redeem string

//go:embed ready.lua
var ready string

// Scripts are the programs of one store. Queued is Reserve for stacks with a limit that calls are queued for: what that
// takes would cost the others time, though they never run it.
type Scripts struct {
	Reserve, Queued, Cancel, Report, Status, Heartbeat string

	// Of the registry: who paces what.
	Describe, Index, Enlist, Upstreams string

	// Settings reads and writes what operators have set.
	Settings string

	// Redeem replaces the record of a booking.
	Redeem string

	// Ready tries what the others do.
	Ready string
}

// New returns the scripts with the server's clock.
func New() Scripts { return withServersClock() }

var withServersClock = sync.OnceValue(func() Scripts { return WithClock(clock) }) //nolint:gochecknoglobals // a cache of a pure function

// WithClock returns the scripts with a clock of one's own in place of clock.lua: a fragment that defines the
// local functions clock() and ttl(us). It is for tests that need time to stand still.
func WithClock(fragment string) Scripts {
	named := numbers.Named()
	read := func(source string) string { return program(source, named) }
	define := func(name, fragment string) string {
		return read("define" + name + " = function()\n" + fragment + "\nend")
	}
	plain := define("[C.GCRA]", pace+starts+gcra+heed) +
		read("define[C.Adaptive] = define[C.GCRA]\ndefine[C.Exact] = define[C.GCRA]\ndefine[C.ExactQueued] = define[C.GCRA]") +
		define("[C.Window]", window) + read("define[C.Part] = define[C.Window]") +
		define("[C.Allowance]", allowance)
	lines := plain + define("[C.Concurrency]", concurrency) + read("define[C.Queued] = define[C.GCRA]") + define(".queue", queue)
	fragment = read(fragment)
	shared, accounts, reserves := fragment+read(charge)+read(list), read(account), read(reserve)
	join := func(definitions, command string) string { return shared + accounts + definitions + read(command) }
	return Scripts{
		Reserve:   shared + read(quick) + accounts + plain + reserves,
		Queued:    shared + accounts + lines + define(".queued", queued) + reserves,
		Cancel:    join(lines, cancel),
		Report:    join(lines, report),
		Status:    join(lines, status),
		Heartbeat: join(lines, heartbeat),

		Describe:  join("", describe),
		Index:     join("", index),
		Settings:  join("", settings),
		Redeem:    join(lines, redeem),
		Enlist:    fragment + read(enlist),
		Upstreams: fragment + read(upstreams),

		Ready: read(ready),
	}
}

// program makes a part of a script of its source. It drops whole-line comments and blank lines, which the server would only have to keep
// and a first EVAL to send, and puts the numbers of package numbers in the place of their names, C.Name: so a run of a script
// spends nothing on them, and the script is the same in every process. Each part is read once, because every process does that when it
// starts.
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
				panic("luascripts: package numbers has no " + t[at:end])
			default:
				b = strconv.AppendInt(b, n, 10)
			}
			t = t[end:]
		}
		b = append(append(b, t...), '\n')
	}
	return string(b)
}

// isWord reports whether a byte may be in a name.
func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
