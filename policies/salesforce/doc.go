// Package salesforce knows the limits of Salesforce's REST API.
//
//	p, err := pacer.New(pacer.Config{
//		Upstream: "salesforce",
//		Policies: append(salesforce.Limits(salesforce.Enterprise, 50), policies.AtMost(20, time.Second)),
//	})
//	client, err := transport.NewClient(p, transport.WithProfile(salesforce.Profile))
//
// # What Salesforce limits
//
// An org has an allocation of calls per 24 hours, shared by all users and integrations. It rolls: it "doesn't reset at a
// specific time", whatever blogs say of midnight in San Francisco. [Daily] is that allocation; [Share] a part of it, to
// leave the rest to others. Salesforce documents no limit per second; stack one of your own, so that a bulk read does not
// spend the day in an hour.
//
// Of the calls that have lasted 20 seconds or longer, 25 may be running (5 in Developer and trial orgs) when a new
// one comes, no matter who made them: that is [Concurrent]. It knows the calls of this fleet; of others the refusals tell.
// [Limits] holds a permit for each call that runs. The transport gives it back; without a transport, use Acquire of
// the pacer in place of Wait.
//
// Every reply tells in Sforce-Limit-Info how much of the allocation is used, by anybody. So others who spend it are
// seen. An endpoint that is not an API, such as the list of versions, tells nothing.
//
// # How it refuses
//
// With 403 and the errorCode REQUEST_LIMIT_EXCEEDED in a JSON array; a 403 with any other code is about permissions.
// The message tells which limit: "TotalRequests" is the allocation, which comes back little by little within 24
// hours, so the pause is [DailyProbe] and repeating the call is pointless; "ConcurrentPerOrgLongTxn" and
// "ConcurrentRequests" are the number of long calls at once, which is over soon: the org's calls pause for
// [ConcurrentWait], or the refused call alone if the stack does not have [Concurrent]. Of a message that says
// neither, the usage decides.
//
// # Not modelled
//
// Apex that runs for long, which is limited apart; api-bursts and per-app-api-usage, which the field may also tell
// and whose meaning is not documented.
package salesforce
