// Package stacks makes random stacks of limits with callers, runs them, and judges the calls that went. Only tests import it.
//
// The judge shares no code with the engine: a limit is its definition in the documentation of package policies. It judges of each stack
//
//   - whether the calls obeyed every limit ([Show.Broken]),
//   - how much of what any schedule could have sent was sent ([Show.Used]),
//   - how long a caller without a queue waits ([Show.Newcomers]).
//
// A stack runs on any store, and in virtual time if the test runs in a bubble of testing/synctest.
package stacks
