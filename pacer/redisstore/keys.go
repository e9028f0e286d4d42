package redisstore

import "strings"

// prefix begins every key and channel of this package. It has the number of the schema: the names of keys and the meaning of their values.
// The number changes whenever an older release could not read what a newer one writes; values that an older release only lacks do not
// change it. Releases with different numbers do not count each other's calls. Permissions name pacer:* and hold for all numbers.
//
// TestTwoReleasesSideBySide runs the previous release beside this one if both have the same number.
const prefix = "pacer:10:"

// Marks in the names of keys and channels: see upstreamKey.
const (
	startsMark     = "/starts"
	leasesMark     = "/leases"
	begunMark      = "/begun"
	lineMark       = "/line"
	waitsMark      = "/waits"
	flowsMark      = "/flows"
	aliveMark      = "/alive"
	cameMark       = "/came"
	doneMark       = "/done/"
	bookingMark    = "/booking/"
	allowancesMark = "/allowances"
	indexMark      = "/index"
	settingsMark   = "/settings"
	resetsMark     = "/resets"
	readyMark      = "/ready"
	pausesMark     = "/pauses"
)

// upstreamsKey is the key of the set of the known upstreams. It is no upstream's, for theirs have braces.
const upstreamsKey = prefix + "upstreams"

// upstreamKey returns the key of an upstream. It begins all others:
//
//	pacer:10:{upstream}                          the epoch of the upstream's data
//	pacer:10:{upstream}/alive                    the processes that pace it, by when they count as gone
//	pacer:10:{upstream}/came                     the same, by when they came
//	pacer:10:{upstream}/allowances               the allowances that the upstream stated, by their end
//	pacer:10:{upstream}/index                    reports of processes: of themselves, their policies, and what went
//	pacer:10:{upstream}/done/ID                  the operations of a process that must not run twice
//	pacer:10:{upstream}/settings                 what operators have set
//	pacer:10:{upstream}/resets                   what was reset lately
//	pacer:10:{upstream}/booking/ID               the record of a booking
//	pacer:10:{upstream}/ready                    exists only while ready.lua runs
//	pacer:10:{upstream}/pauses                   the channel on which the scripts publish
//	pacer:10:{upstream}:policy                   an account of the whole upstream
//	pacer:10:{upstream}:policy:value             an account of one scope value, escaped
//	pacer:10:{upstream}:policy/starts[:value]    when calls of a rate start, if its windows are exact
//	pacer:10:{upstream}:policy/leases[:value]    the calls in flight, by when their leases run out
//	pacer:10:{upstream}:policy/begun[:value]     the same, by when they began, if only long ones count
//	pacer:10:{upstream}:policy/line[:value]      the queue, in order
//	pacer:10:{upstream}:policy/waits[:value]     the same, by when they count as dead
//	pacer:10:{upstream}:policy/flows[:value]     the flows of fair shares, by where their last calls end
//
// The upstream is the hash tag, so that all keys of a stack are in one slot. Names of upstreams and policies have no brace, colon or slash,
// and scope values are escaped, so no value can reach another key.
func upstreamKey(upstream string) string {
	var b strings.Builder
	writeUpstreamKey(&b, upstream)
	return b.String()
}

func writeUpstreamKey(b *strings.Builder, upstream string) {
	b.WriteString(prefix)
	b.WriteByte('{')
	b.WriteString(upstream)
	b.WriteByte('}')
}
