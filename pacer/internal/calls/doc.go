// Package calls reads what a call requests, from its options and its context, and finds what binds it.
//
// # Purpose
//
// What a caller says of a call is said in options, and in contexts that carry scopes and outer calls. A [Reader] makes an [Ask] of that, by
// the policies that hold at this moment, and then a request for the waiters: the limits that bind the call, each with its key, and what
// the call costs each of them.
//
//	options, context ──New──▶ Ask ──Request──▶ waiters.Request: limits and costs ──▶ the store
//	                           │                     ▲
//	                           │    other policies   │
//	                           └──Keep──▶ Asked ──Bind┘
//
// Three kinds of calls have more to them:
//
//	nested    made under the context of a call that holds permits: it may share them, and is refused if it would wait for itself
//	pooled    any one of several credentials may make it: its request has the limits of all of them, as choices
//	observed  bound by policies that are not enforced: Ask.Which says which kind of limits is meant
//
// # Invariants
//
//   - An Ask is bound by one binding.Set. Only [Asked.Bind] binds a call that waits by another one, and then all of it.
//   - Nothing of a call is kept but in its Asked: an Ask without one may refer to what is on its caller's stack.
//   - A call that need not wait is read and bound without an allocation: see [Reader.AtOnce].
//   - The limits of a choice that never admits a pooled call are left out; if all are, the call is refused.
//   - A call shares only permits of limits that have the same key, and only those of calls in flight of the same Pacer.
//
// # Failures
//
// The package knows no errors of its own: [Errors] make those of users. A call whose new policies do not go together with what it
// carries keeps those that it had.
package calls
