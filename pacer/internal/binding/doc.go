// Package binding finds which limits bind a call, and what the call costs each of them.
//
// # Purpose
//
// A [Set] is the policies that hold, unpacked once: with the parts of lanes, with the numbers that single keys have of their own, and with
// the rules by which feedback is read. It never changes. When policies change, [New] makes the next one, which still knows the names of
// those before, because calls that were bound by them are on their way.
//
//	policies in force ──New──▶ Set 1 ──New──▶ Set 2 ...
//	                             │
//	  what a call carries ──Bind─┴▶ limits, each with its key and its numbers ──Costs──▶ limits, and what each is charged
//	                         │                                                    │
//	                         └─▶ Missing: the call lacks a scope                  └─▶ Excess: it can never go
//
// # Invariants
//
//   - A call is bound by one Set, whatever changes meanwhile.
//   - What a call carries is asked of functions that are called at once and not kept: a call that need not wait is bound without an
//     allocation.
//   - A part of a lane binds only calls of the lane, and costs what the whole policy does.
//   - At most 65,536 keys with numbers of their own are remembered, and 1,000 names of policies that do not hold any more.
//
// # Failures
//
// The package knows no errors: a [Missing] or an [Excess] is a value, of which the caller makes the error of a user.
package binding
