// Package memstore is the store of a single process, in memory: the default of a Pacer without a store. It keeps, for each limit, the
// account of what was spent.
//
// # Keys
//
// Keys are spread over 64 shards, each with a mutex of its own. The upstream and the scope value determine the shard, so one lock guards
// the policies of one tenant:
//
//	Reserve(stack) -> shards of its keys -> lock them, in order -> read the clock -> decide (internal/engine) -> unlock
//	                                                                        |
//	                                         ErrFull <- all keys in use <- make missing keys
//	                                                                        |
//	                         evict: some keys for each new one, and now and then some of a shard that is idle
//
// Invariants: a stack is decided as a whole, under all of its locks; locks are taken in order, so there is no deadlock; the clock is read
// under the locks, so time never steps back for an account; a key is evicted only when it has no effect any more.
//
// # Admission
//
// A call that need not wait takes a path without allocations: see [Store.Admit]. It makes the same decision as Reserve.
//
// The package starts no goroutine, and there is nothing to close.
package memstore
