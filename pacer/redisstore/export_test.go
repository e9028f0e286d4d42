package redisstore

import (
	"strings"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/store"
)

// testClock takes the time from the last argument, and lets keys live long enough for a clock that stands still.
const testClock = `
local still = tonumber(table.remove(ARGV))
local function clock() return still end
local function ttl(us) return math.ceil(us / 1000) * 1000 + 100000 end
`

var withTestClock = sync.OnceValue(func() scripts.Scripts { return scripts.WithClock(testClock) })

// NewAt returns a Store whose clock is now.
func NewAt(rdb Client, now func() store.Instant) *Store {
	s := withScripts(rdb, withTestClock())
	s.testClock = func() int64 { return int64(now()) }
	return s
}

// ShiftClock makes a store believe that the server's clock is d ahead of this machine's.
func ShiftClock(s *Store, d time.Duration) {
	s.seen, s.since = time.Now().Add(d).UnixMicro(), time.Now()
}

// ParseChanges is parseChanges.
var ParseChanges = parseChanges

// NewShort returns a Store that reserves by the short way of its script only: where that does not decide, Reserve fails.
func NewShort(rdb Client) *Store {
	program := scripts.New()
	const ask = "\nlocal reply = quickly()\n"
	short, _, ok := strings.Cut(program[scripts.Reserve], ask)
	if !ok {
		panic("the script has no short way")
	}
	program[scripts.Reserve] = short + ask + "return reply or redis.error_reply('ERR the long way')\nend\n"
	return withScripts(rdb, program)
}
