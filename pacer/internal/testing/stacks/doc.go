// Package stacks makes up stacks of limits and those who call, plays them, and judges what went. Only tests import it.
//
// The judge shares no code with the engine: a limit is its definition in the documentation of package policies. It judges of each stack
//
//   - whether what went obeys every limit ([Show.Broken]),
//   - how much of what any schedule could have sent went ([Show.Used]),
//   - for how long one waits who has no line of its own ([Show.Newcomers]).
//
// A stack is played on any store, and in virtual time if the test runs in a bubble of testing/synctest.
package stacks
