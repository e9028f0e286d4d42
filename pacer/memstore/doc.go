// Package memstore keeps the accounts of one process: it is the store of a Pacer that is given none.
//
// # Keys
//
// Keys are spread over 64 shards, each with a mutex of its own. The shard follows from the upstream and the scope value, so that the
// policies of one tenant are found under one lock:
//
//	Reserve(stack) -> shards of its keys -> lock them, in order -> read the clock -> decide (internal/engine) -> unlock
//	                                                                        |
//	                                         ErrFull <- all keys in use <- make missing keys
//	                                                                        |
//	                         evict: some keys for each that is made, and now and then some of a shard that nobody uses
//
// Invariants: a stack is decided as a whole, under all of its locks; nobody waits in a circle, because locks are taken in order; the
// clock is read under the locks, so that time never steps back for an account; a key goes only when its last effect is past.
//
// # Admission
//
// A call that need not wait takes a way without allocations: see [Store.Admit]. It asks the engine the same question as Reserve.
//
// There is no goroutine and nothing to close.
package memstore
