// Package parts divides policies into what a store keeps accounts of: each policy, and the part of it that each of its lanes has. It also
// finds policies that do not go together.
//
//	policy "peak", lanes "batch" and "sync"  ->  account "peak"              binds every call
//	                                             account of lane "batch"     binds calls of that lane, besides "peak"
//	                                             account of lane "sync"      binds calls of that lane, besides "peak"
//
// It has no states. Names are unique over all policies and parts, and at most one scope is that of fair shares: Check returns the first
// policy that breaks this, which pacer.New turns into a ConfigError.
package parts
