// Package luascripts is the Redis store's program: Lua for Redis and Valkey, in fragments that pacer/internal/scripts joins.
//
// Each command (reserve, cancel, report, status, heartbeat, describe, index, enlist, upstreams, settings,
// redeem, ready) is a file whose head is its
// contract: KEYS, ARGV with units, reply, TTL. The fragments before it are shared: the clock, what the algorithms have in common, and
// one file for each algorithm. The value of an account's key begins with the shape of the limit that last changed it; account.lua has the
// grammar, and what happens when policies change. The scripts need Redis 6.2 or Valkey, and no library beyond string and math.
//
// A server runs a whole script for each EVALSHA, definitions included, and those of all functions would take longer than
// most decisions. So the common case comes first (quick.lua), and an algorithm is defined when a run meets it; rare functions
// of a window, when a run needs them.
package luascripts

import "embed"

// Files are the fragments, which pacer/internal/scripts joins. No compatibility promise covers them.
//
//go:embed *.lua
var Files embed.FS
