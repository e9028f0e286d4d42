// Package salesforce describes the limits of Salesforce's REST API.
//
//	p, err := pacer.New(pacer.Config{
//		Upstream: "salesforce",
//		Policies: append(salesforce.Limits(salesforce.Enterprise, 50), policies.AtMost(20, time.Second)),
//	})
//	client, err := transport.NewClient(p, transport.WithProfile(salesforce.Profile))
//
// # What Salesforce limits
//
// An org has an allocation of calls per 24 hours, shared by all users and integrations. It rolls: it "doesn't reset at a specific time",
// despite what blogs claim about midnight in San Francisco. [Daily] is that allocation. [Share] is a part of it, so that the rest is left
// to others. Salesforce documents no limit per second. Stack one of your own, so that a bulk read does not spend the day's calls in an
// hour.
//
// While 25 calls are running that have lasted 20 seconds or longer (5 in Developer and trial orgs), no matter who made them, Salesforce
// refuses new ones: that is [Concurrent]. It counts the calls of this fleet; refusals report the calls of others. [Limits] holds a permit
// for each call that runs. The transport gives it back; without a transport, use Acquire of the pacer in place of Wait.
//
// Every reply reports in Sforce-Limit-Info how much of the allocation is used, by anyone, so the calls of others are seen. An endpoint that
// is not an API, such as the list of versions, reports nothing.
//
// # How it refuses
//
// Salesforce answers 403 with the errorCode REQUEST_LIMIT_EXCEEDED in a JSON array; a 403 with any other code is about permissions. The
// message names the limit:
//
//   - "TotalRequests" is the allocation, which becomes available again little by little within 24 hours. So the pause is [DailyProbe], and
//     repeating the call is pointless.
//   - "ConcurrentPerOrgLongTxn" and "ConcurrentRequests" are the number of long calls at once, which is over soon. The org's calls pause
//     for [ConcurrentWait], or only the refused call if the stack does not have [Concurrent].
//
// If the message names neither, the usage decides.
//
// # Not modelled
//
// Apex that runs for long, which is limited separately; api-bursts and per-app-api-usage, which the field may also report and whose meaning
// is not documented.
package salesforce
