// Package redisstore keeps the accounts of a fleet in Redis or Valkey.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//	store, err := redisstore.New(rdb)
//
// Each operation is one script run, whatever the number of policies: EVALSHA, and EVAL only where the server
// does not know the script yet. The server's clock decides; the clocks of the clients do not matter, except
// that they find the page of the calendar for windows in a time zone (and if one finds the wrong page, the
// server says so and the client turns to the right one).
//
// Reservations of one Pacer that come while one of the same stack is on the wire are batched, and go together when that is back:
// one script decides them all, in order, and reads and writes each account once. So the more goroutines ask, the less each
// of them costs the server. A lone call goes at once. What is given back at the same time goes together, too, whatever its
// stacks, and so does what a process has to say when it comes back. No request is about more than 256 calls.
//
// # State
//
// An account is one key (a rate with gaps has two), all keys of an upstream share a hash slot, and each key
// has a TTL that ends after its last effect: what has expired means the same as what was never written. See
// keys.go for the names and package luascripts for the values.
//
// # News
//
// The script that writes a pause also publishes it, on the channel pacer:1:{upstream}/pauses, so that calls which sleep in
// other processes move behind it. A Store subscribes when a call of one of its Pacers goes to sleep, with one connection
// for all upstreams, and ends that when the last such Pacer is closed. In a Cluster the nodes pass messages on by
// themselves. The script that begins an epoch of the data publishes that, too. A user who may not publish can still pause: only
// those who sleep already do not hear of it.
//
// # Who paces what
//
// The processes of an upstream say every few seconds, or every minute if there are thousands, what they are, what their
// policies are, what went and who waits: in one hash for each upstream, which is bounded and expires. The names of the upstreams are in one set, which in a Cluster is on
// another server than most of them, so it is written by a request of its own, once a minute. See [Store.Index] and
// [Store.Upstreams]: reading writes nothing, and nothing is scanned.
//
// # Outages
//
// A [pacer.Pacer] watches over the store: see its documentation, and docs/reliability.md. The store's part is to send no
// command twice, because a script whose reply was lost may have run; to keep an epoch in the upstream's key, by which clients
// see that the data is not what it was; and a list of the processes that are there. Store time does not follow a server
// clock that steps back: the upstream's key says by how much it is late.
//
// # Requirements
//
// Redis 6.2 or later, or Valkey; standalone, Sentinel or Cluster. Eviction of keys (maxmemory-policy other
// than noeviction) forgets limits: do not let it. Anyone who can write to the keys can change the pace: they are
// inside the trust boundary.
package redisstore
