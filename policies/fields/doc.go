// Package fields parses what header fields and bodies report about limits: one function for each form.
//
// Different vendors mean different things by the same word. A field with the name "reset" holds seconds from now, seconds or milliseconds
// since the Unix epoch, a duration such as 6m0s, ISO 8601 or an HTTP date. Only the vendor's documentation tells which, so nothing here
// guesses: a profile picks the function.
//
// All input is hostile until it is parsed. No function panics, blocks, or reads more of its input than a valid form can have. Waits are
// rounded up, are never negative and never overflow: one that is too long for a Duration becomes the longest Duration, which the reader of
// [policies.Feedback] caps. Anything that is not exactly the form in question is not ok.
package fields
