// Package pacer paces a program's outbound calls to third-party APIs, so that the program stays within the rate limits, quotas and
// concurrency limits of those APIs. It paces a single process from memory, or a fleet of processes through a shared store such as
// Redis (package redisstore).
//
//	p, err := pacer.New(pacer.Config{
//		Upstream: "salesforce",
//		Policies: []policies.Policy{
//			policies.Daily(100_000, time.UTC),
//			policies.PerSecond(25).Burst(10).Per("tenant"),
//			policies.InFlight(20),
//		},
//	})
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	ctx = pacer.With(ctx, pacer.Scope("tenant", "acme"))
//	r, err := p.Acquire(ctx, pacer.Cost(3)) // Acquire, because a policy counts calls in flight
//	if err != nil {
//		return err // refused or cancelled: nothing was charged
//	}
//	defer r.Release() // when the call has ended
//
// Which function you need depends on the call:
//
//   - Package transport for HTTP: it paces calls below an [net/http.Client], and reports to the pacer the limits that replies state.
//   - [Pacer.Do] for other protocols: it does the same for a call that you pass as a function.
//   - [Pacer.Acquire], as above, if a policy counts calls in flight. With [Tracked] and [Reservation.Report], it is Do in parts.
//   - [Pacer.Wait] if replies state no limits: if p.Wait(ctx) returns nil, make the call now.
//   - [Pacer.TryAcquire] if the call must not wait: it refuses a call that may not start now.
//
// Use [CostOf] if a call costs each policy a different amount, and [Reservation.Settle] if you learn the cost only afterwards. Use
// [Lane] and [Weight] if some calls matter more than others.
//
// # Terms
//
// A call is one outbound request, with a cost. It starts when the pacer admits it and you send it. An upstream is the API that you
// call. A policy is one limit of an upstream, with a scope. The stack of a call is the list of policies that apply to it: they bind
// the call. A slot is the earliest instant, by the store's clock, at which a call may start. A reservation is a slot that was granted
// and charged; you can cancel it. Slack is how much later than its slot a call may start and still conform. A pause stops every call
// in its scope until a given time. A permit is a lease on one of the calls that may be in flight at once.
//
// Before each call, the pacer requests a slot from the store. In one operation, the store finds the first slot that every policy of the
// stack admits, and charges all of these policies. The caller sleeps until the slot, and the call starts: callers do not poll or compete. A
// process requests slots at most H = max(40 ms, 3 × the round trip to the store) ahead, and never more than 2 s, but always holds at least
// one slot while calls wait. Its other calls wait in order, in a queue in the process, and hold nothing. A call that waits for a permit, in
// a lane ([policies.Policy.Lane]) or for its fair share ([policies.Policy.Fair]) is queued in the store instead.
//
// # Guarantees
//
//   - Conformance: the times at which calls start conform to every policy, for any interleaving of calls, cancellations, pauses and
//     jitter, and for any number of processes.
//   - All or nothing: a call that is refused or fails has charged no policy.
//   - No head-of-line blocking: a key whose limit is full delays only the calls that carry that key. In a limit that keys share, a call
//     with no others before it in its process waits at most for H and for one call of each queue, two more and the burst, however long
//     the queues are; for a window that is full, also for a turn of it. A queue is the calls that wait in one process for the same
//     limits. (This bound is for stacks of rates and windows, and calls of a cost of 1, and does not count slots that are reserved
//     far ahead.)
//   - Work-conserving: the store gives a call the first slot at which all of its limits have room. That slot may lie before slots that
//     others have reserved, and may be one that was cancelled. H bounds how far ahead slots are requested. A rate with a burst of 1 has no
//     room in a gap between two slots that is shorter than its interval: a rate of two or more calls per period that keys share has a burst
//     of 2 by default.
//   - Never early: no call starts before its slot. Jitter only delays a call, within the slack.
//   - Deadline-aware: a call that cannot start before its context's deadline, or within MaxWait, is refused at once. For a call behind
//     others in the queue of its process this is an estimate, based on the pace of that queue, and the error text has "about". If the
//     estimate was too optimistic, the call is refused when its time runs out.
//   - Stable slots: no call moves another call's slot.
//   - Order: without cancellations and pauses, calls of one process that carry the same keys and cost about the same start in the
//     order in which they arrived.
//   - Bounded state: data that no longer affects any decision expires.
//
// The conformance suite in package storetest checks every store against these guarantees.
//
// The guarantees are about the moment at which Wait returns. They do not cover what happens afterwards: a goroutine that is not scheduled,
// a connection that is slow to open, a network that brings two calls closer together. The fleet learns from refusals how large this effect
// is, and keeps a margin: see [policies.Policy.Margin]. Headway learns of other consumers of the same quota only from what the upstream
// reports: see [Pacer.Report]. docs/guarantees.md lists what else can break conformance.
//
// # Without the store
//
// A shared store can hang, fail, lose its data or report a wrong time. Every store operation has a time budget, Config.StoreTimeout. When
// the store is out of reach, the process paces from memory, unless Config.Outage is set. It then uses its share of each limit, which is the
// limit divided by the number of processes that the fleet had, and stays behind every slot that it knows the fleet was granted. When the
// store is back, each process reports what it spent, and calls that still wait give their local slots up for slots from the store, which
// are earlier only if a rate makes them wait.
//
// If only one of n processes has lost the store, the others still share the whole limit, so the upstream can get up to 1/n more than
// the limit.
//
// A process that starts while the store is out of reach does not know how large the fleet is, and does not guess. Its calls wait for the
// first contact with the store while MaxWait and their contexts allow, and then fail with a [*StoreError] with NoContact, which names what
// to check. [Pacer.Ready] detects this before a call depends on it. With Config.Processes, the number of processes, it paces
// locally at once. With Config.Outage, it lets calls through ([LetThrough]) or refuses them ([RefuseCalls]) at once.
//
// # Feedback from the upstream
//
// [Pacer.Report] and [Reservation.Report] apply what an upstream reports: a request to slow down, its limits, and how much of them
// is left. Package transport and [Pacer.Do] do this for every response. The store has these reports, for every process that shares
// it, and no report makes it admit more than the policies do. A pause also moves the calls that are already waiting behind it, in
// their order. Package fleet lifts a pause by hand.
//
// The upstream may refuse a call that had its slot, because the network brought it too close to the calls before it. Such a stray
// refusal pauses nothing. It widens the margin of the limit, and the margin then shrinks again over time: see
// [policies.Policy.Margin]. To recognise a stray refusal, the store must know which call was refused: Pacer.Do and
// Reservation.Report pass that on, Pacer.Report does not.
//
// # Observing
//
// Each refusal names the policy that refused the call, its scope, how long to wait and what to do: see [LimitError]. [Pacer.Status]
// shows the state of every policy for a call. Package fleet shows an upstream: every policy, the calls of the last minute, which
// calls wait and for what, the processes, and the keys that spend most. [hooks.Set] receive events as they happen, in goroutines of
// their own, so that no call waits for them. [hooks.Log] logs them, and package otelpacer exports them to OpenTelemetry.
//
// # Changing limits
//
// Policies can change while calls wait: [Pacer.Declare] replaces those of this process; package fleet replaces those of every process that
// shares the store, or the numbers of one key. Earlier calls still count, waiting calls keep their order, and none of them fails.
//
// # Documentation
//
// The folder docs/ of the module has more: docs/concepts.md explains the terms in pictures, docs/policies.md how to choose policies,
// docs/errors.md what an error means and what a loop does about it, docs/config.md how to keep policies in a file, docs/inbound.md how
// to limit requests to your own server, docs/observe.md how to try a limit before you enforce it, docs/guarantees.md what holds and what
// an outage does, and docs/operating.md how to run it. ARCHITECTURE.md explains how the code is organised.
package pacer
