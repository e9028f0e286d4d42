// Package fields parses what header fields and bodies report about limits: one function for each form.
//
// Vendors send times in many forms: seconds from now, seconds or milliseconds since the Unix epoch, durations such as 6m0s, ISO 8601 and
// HTTP dates. [Wait] reads all of them, because their forms differ. Only milliseconds from now look like seconds: a profile whose vendor
// documents them calls [Milliseconds].
//
// All input is hostile until it is parsed. No function panics, blocks, or reads more of its input than a valid form can have, and [Get] and
// [Values] return no field of more than 4 KiB. Waits are rounded up, are never negative and never overflow: one that is too long for a
// Duration becomes the longest Duration, which the reader of [policies.Feedback] caps. Anything that is not exactly a known form is not ok.
package fields
