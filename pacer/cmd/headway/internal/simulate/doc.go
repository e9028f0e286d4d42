// Package simulate predicts what a stack of policies does to calls: how many are admitted, how long they wait and for which policy, and
// when a quota is spent.
//
// It computes this in virtual time, event by event, with the engine that paces real calls: a [memstore.Store] whose clock jumps from one
// event to the next. The engine's surroundings are modelled: the network to the store, late timers, jitter, and the callers. [Run] runs a
// simulation, and [Command] is its command line.
package simulate
