// Package redisstore is a shared store for pacers in Redis or Valkey: it keeps an account for each limit.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//	store, err := redisstore.New(rdb)
//
// Each operation runs one script, whatever the number of policies: by EVALSHA, and by EVAL only if the server does not know the script yet.
// The server's clock decides. The clients' clocks matter in one case only: for windows in a time zone, the client sends the bounds of the
// windows around the current time. If its clock is so wrong that these are the wrong ones, the server replies so, and the client sends the
// right ones.
//
// While a request of a stack is under way, further reservations of the same Pacer and stack wait and are then sent as one batch. One script
// run decides them all, in order, and reads and writes each account once. So the more goroutines reserve at the same time, the less each of
// them costs the server. A single call is sent at once. Slots that are given back at the same time are also batched, whatever their stacks,
// and so are the reports of a process after an outage. A request holds at most 256 calls.
//
// # State
//
// An account is one key, or two for a rate with free slots between reservations. All keys of an upstream share a hash slot. Each key has a
// TTL that ends when the key no longer has any effect: an expired key means the same as one that was never written. keys.go lists the keys.
//
// # Pauses
//
// The script that writes a pause also publishes it, on the channel pacer:10:{upstream}/pauses, so that sleeping calls in other processes
// move behind it. A Store subscribes when a call of one of its Pacers starts to sleep, with one connection for all upstreams, and
// unsubscribes when the last such Pacer is closed. In a Cluster the nodes forward messages to each other. The same channel announces a new
// epoch, that is, that the server has lost its data. A user without permission to publish can still pause, but sleeping calls do not
// receive the pause.
//
// # The registry of processes
//
// Every few seconds, or every minute if there are thousands of them, each process of an upstream reports its name, its policies, what it
// sent and which calls wait. These reports are in one hash for each upstream, which is bounded and expires. The names of the upstreams are
// in one set. In a Cluster that set is on another server than most of the upstreams, so a separate request writes it, once a minute.
// [Store.Index] and [Store.Upstreams] read both. Reading writes nothing, and nothing scans the keys.
//
// # Outages
//
// A Pacer handles outages: see its documentation and docs/guarantees.md. The store contributes three things. It sends no command twice,
// because a script whose reply was lost may have run. It keeps an epoch in the upstream's key, so that clients notice lost data. And it
// keeps a list of the processes that are alive. Store time does not follow a server clock that steps back: the upstream's key holds the
// difference.
//
// # Requirements
//
// Redis 6.2 or later, or Valkey; standalone, Sentinel or Cluster. Set maxmemory-policy to noeviction: if the server evicts keys, limits are
// forgotten. Anyone who can write to the keys can change the pace: such users are inside the trust boundary.
package redisstore
