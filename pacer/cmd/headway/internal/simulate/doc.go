// Package simulate says what would become of calls that are offered to a stack of policies: how many go, how long they wait
// and for which policy, when a quota is spent.
//
// It computes that in virtual time, event by event, over the engine that paces real calls: a [memstore.Store] whose clock
// jumps from one event to the next. What surrounds the engine is modelled: the way to the store, late timers, jitter, and the
// programs that call. [Run] does it, and [Command] is the command line for it.
package simulate
