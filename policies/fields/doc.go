// Package fields parses what header fields and bodies say about limits: one function for each form.
//
// The same word means different things at different vendors. A field that is called "reset" holds seconds
// from now, seconds or milliseconds of the epoch, a duration such as 6m0s, ISO 8601 or an HTTP date. Which
// of them it is can only be known per vendor, so nothing here guesses: a profile picks the function.
//
// All input is hostile until parsed. No function panics, blocks, or reads more of its input than a valid form
// can have. Waits are rounded up, are never negative and never overflow: one too large for a Duration becomes
// the largest, which [policies.Feedback]'s reader caps. What is not exactly the form in question is not ok.
package fields
