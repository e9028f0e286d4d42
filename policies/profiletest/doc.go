// Package profiletest tests a [policies.Profile] against replies that its vendor documents.
//
// A profile consists of pure functions of requests and replies, so its tests are data: one file for each reply, with what the profile reads
// from it. This is the whole test of a vendor:
//
//	func TestReplies(t *testing.T) { profiletest.Replay(t, acme.Profile, "testdata") }
//	func FuzzRead(f *testing.F)    { profiletest.Fuzz(f, acme.Profile, "testdata") }
//	func TestLimits(t *testing.T)  { profiletest.Limits(t, acme.Profile, acme.Limits(acme.Free)) }
//
// # Files
//
// A file has any number of comments, and then three sections:
//
//	# https://docs.acme.example/limits: a write beyond the limit of one ticket
//	-- request --
//	PUT https://acme.example/tickets/1.json
//	Authorization: Basic abc
//
//	{"ticket":{}}
//	-- response --
//	429
//	Retry-After: 12
//	X-Limit: 700
//	X-Limit-Remaining: 0
//
//	Slow down
//	-- reading --
//	scope account=acme
//	scope endpoint=tickets-update
//	cost points=5
//	verdict limited
//	feedback policies=account otherwise=everyone refused wait=12s source=Retry-After
//	feedback policies=account otherwise=everyone limit=700 window=1m0s remaining=0 source=X-Limit
//
// The request starts with its method and absolute URL, the response with its status. Header fields follow, one on each line; a field that
// occurs twice was sent on two lines. After the first blank line comes the body, without the line end before the next section. The response
// arrived at [Now], unless it has a Date of its own.
//
// The reading is what the profile reports, in its order, and nothing else. ReadEnd's report comes after Read's:
//
//	scope     name=value, for each scope that the request carries
//	cost      policy=n; the policy is * for all that have no cost of their own; known= times= most= follow, if the cost is learned
//	verdict   unjudged, limited or spent; always present
//	feedback  policies= otherwise= refused certain wait= limit= window= remaining= used= reset= source=
//	          what is not reported is left out; otherwise= is nobody, everyone, thecall or unknown, and only follows policies=
//	settle    policy=n, what the call really cost
//
// Times are printed as Go durations. A value with blanks at its ends or unprintable characters is quoted. A file with anything else in it
// fails: a line that is not understood tests nothing.
//
// With HEADWAY_UPDATE=1 in the environment, [Replay] writes the reading section instead of comparing it. Review the difference before you
// keep it: it decides what a pacer does.
//
// # The table
//
// A README.md beside the files has a table of all that the vendor's pages and SDKs document about limits: each field, its unit, each status
// and error code, where it is documented, what the profile makes of it, and in `name.txt` the files that show it. A row without a file has
// the reason.
//
// # Rules
//
// All functions here also check the rules of [policies.Profile]: no time and no cost is negative, names are valid, the same input gives the
// same output, and the profile changes nothing that it is given and consumes no body. Of a reply's body, Read gets as much as Peek
// requested, and no more than [policies.MaxPeek]; Settle and ReadEnd get both ends. A field of more than 4 KiB must count as absent.
// Profiles run in parallel, so the race detector finds what they share.
package profiletest
