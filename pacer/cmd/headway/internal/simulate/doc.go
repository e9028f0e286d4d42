// Package simulate predicts what happens to calls that are offered to a stack of policies: how many are admitted, how long they wait and
// for which policy, when a quota is spent.
//
// It computes this in virtual time, event by event, with the engine that paces real calls: a [memstore.Store] whose clock jumps from one
// event to the next. The engine's surroundings are modelled: the network to the store, late timers, jitter, and the programs that call.
// [Run] runs a simulation, and [Command] is its command line.
package simulate
