// Package pacer paces a program's outbound calls to third-party APIs, so that they keep the limits of those APIs. It paces one
// process from memory, or a fleet of processes through a shared store such as Redis (package redisstore).
//
//	p, err := pacer.New(pacer.Config{
//		Upstream: "salesforce",
//		Policies: []policies.Policy{
//			policies.Daily(100_000, time.UTC),
//			policies.PerSecond(25).Burst(10).Per("tenant"),
//			policies.InFlight(20),
//		},
//	})
//	ctx = pacer.WithScope(ctx, "tenant", "acme")
//	r, err := p.Acquire(ctx, pacer.Cost(3)) // a policy counts calls in flight
//	if err != nil {
//		return err // refused or cancelled: nothing was charged
//	}
//	defer r.Release() // the call is over
//
// Without a policy that counts calls in flight, [Pacer.Wait] is enough: err := p.Wait(ctx); nil means go now. For HTTP, package
// transport does all of this below an [net/http.Client], and reports what replies say. For anything else, [Pacer.Do] does. [CostOf]
// and [Reservation.Settle] are for costs that differ by policy or are known only afterwards; [WithLane] and [Weight] are for calls of
// different importance. [Pacer.TryAcquire], [Pacer.Allow] and [Pacer.AllowAtMost] never wait: what may not go now is refused.
//
// # Terms
//
// A call is one outbound request, with a cost. An upstream is the API being called. A policy is one limit of an upstream, with a
// scope. The stack is the policies that bind one call. A slot is the instant, in store time, from which a call may go. A reservation
// is a slot granted and charged; you can cancel it. Slack is how much later than its slot a call may go and still conform. A pause
// lets nothing in its scope go before a given time. A permit is a lease on one of the calls that may be in flight at once.
//
// Before each call, the store is asked in one operation for the first slot that every policy of the stack admits, and charges all of
// them. The caller sleeps until its slot, and goes: it does not poll or compete. A process requests a slot only up to
// H = max(40 ms, 3 × the round trip to the store) ahead, and always holds at least one. Its other calls wait in order in a queue of
// the process, and hold nothing. A call that waits for a permit, in a lane or for its fair share is queued in the store.
//
// # Guarantees
//
//   - Conformance: the times at which calls go conform to every policy, for any interleaving of calls, cancellations, pauses and
//     jitter, from any number of processes.
//   - All or nothing: a call that is refused or fails has charged no policy.
//   - No head-of-line blocking: a key that is full delays only the calls that carry it.
//   - Work-conserving: when the store is asked, a call gets the first slot at which all of its limits have room, whether that is
//     before later reservations or where one was cancelled. H bounds how far ahead the store is asked.
//   - Never early: no call goes before its slot. Jitter is added, within the slack.
//   - Deadline-aware: a call that cannot go before its context's deadline, or within MaxWait, is refused at once. For a call behind
//     others in the queue of its process that is an estimate, by the pace at which they go, and the error reports it as one
//     (LimitError.About). If the estimate is too optimistic, the call is refused when its time is over.
//   - No call moves another's slot. Without cancellations and pauses, calls of one process that carry the same keys and cost about
//     the same go in the order in which they came.
//   - Bounded state: what no longer means anything expires.
//
// Package storetest holds every store to this.
//
// The guarantees are about when Wait returns. They do not cover what happens afterwards: a goroutine that is not scheduled, a
// connection that is slow to open, a network that brings two calls closer together. The fleet finds out by how much, and keeps a
// margin: see [policies.Policy.Margin]. Headway sees other consumers of the same quota only in what the upstream reports: see [Pacer.Report].
//
// # Without the store
//
// A shared store can hang, fail, forget or lie about the time. Every operation has a time budget of its own, Config.StoreTimeout.
// When the store is out of reach, the process paces from memory, or as Config.Outage tells it to: at its share of each limit, the
// limit divided by the number of processes that the fleet had, and behind every slot that the fleet is known to have been granted.
// When the store is back, each process reports what it spent, and calls that still wait exchange their slots for slots of the fleet
// that are not earlier. Two things cannot be known. If only one process has lost the store, the others still share the whole limit:
// up to 1/n too much goes out. And a process that starts while the store is out of reach does not know how large the fleet is.
//
// Such a process does not guess. Its calls wait for the first contact, for as long as MaxWait and their contexts allow, and then get a
// [*StoreError] that matches [ErrNoContact] and says what to check; [Pacer.Ready] finds out before a call depends on it. If Config.Processes says how many processes there are, it paces
// locally at once; with Config.Outage, it lets calls through ([LetThrough]) or refuses them ([RefuseCalls]) at once.
//
// # Feedback from the upstream
//
// [Pacer.Report] and [Reservation.Report] apply what an upstream reports: "slow down", its limits and what is left of them. Package
// transport and [Pacer.Do] do so for every response. It all goes to the store, for every process that shares it, and none of it admits
// more than the policies do. A pause also moves the calls that wait already behind it, in their order. [Pacer.Resume] lifts a pause by
// hand.
//
// A call may be refused although it had its slot, because the network brought it too close to those before it. Such a stray refusal
// pauses nobody. It makes the margin of the limit wider, which fades: see [policies.Policy.Margin]. To tell one, the store must know
// which call was refused: [Pacer.Do] and [Reservation.Report] say so, [Pacer.Report] does not.
//
// # Observing
//
// Each refusal names the policy that binds, its scope, how long to wait and what to do: see [LimitError]. [Pacer.Status] shows the
// state of every policy for a call; package fleet shows an upstream: every policy, what went in the last minute, which calls wait for
// what, the processes, and the keys that spend most. [Hooks] receive events as they happen, in goroutines of their own, so that no
// call waits for them; [LogHooks] logs them, and package otelpacer exports them to OpenTelemetry.
//
// # Changing limits
//
// Policies can change while calls wait: [Pacer.Declare] replaces those of this process, [Pacer.SetPolicies] those of every process that
// shares the store, and [Pacer.SetLimit] the numbers of one key. What was spent still counts, waiting calls keep their order, and none of
// them fails.
//
// # Documentation
//
// The folder docs/ of the module has more: docs/concepts.md explains the terms in pictures, docs/policies.md how to choose policies,
// docs/config.md how to keep them in a file, docs/queues.md permits, lanes and fair shares, docs/inbound.md how to limit a server of your
// own, docs/observe.md how to watch a limit before you enforce it, docs/reliability.md every fault and its effect, docs/operating.md how to run it, and docs/architecture.md how the code is
// organised.
package pacer
