// Package page shows the state of upstreams in a browser: live charts of calls sent and waiting, which policy they wait for, what is left
// of the quota, pauses, the processes, and the busiest tenants. It is an http.Handler, like net/http/pprof. Mount it in a server of your
// own, behind your own authentication:
//
//	h, err := page.New(page.Config{Operators: []*fleet.Operator{fleet.Of(p)}, Hosts: []string{"ops.example"}})
//	mux.Handle("/debug/headway/", requireAdmin(h))
//
// Any mount point works, with http.StripPrefix or without, if the subtree is mounted. The handler serves everything that the browser loads:
// the page uses no other server.
//
// The page shows the names of tenants to anyone who can open it, and with Config.Intervene lets them stop a fleet. It has no users or
// permissions: put authentication in front of it. It answers only requests for loopback and for the hosts in Config.Hosts.
//
// One poller for each upstream reads its state twice a second, however many people view it. Without viewers, nothing runs. A tab in the
// background does not count as a viewer.
//
// # Addresses
//
// Relative to the mount point:
//
//   - ./ is the page; ?upstream= chooses one, and defaults to the first.
//   - fleet.json?upstream=zendesk&scope=tenant=acme is the same once, as JSON, for scripts: a fleet.Snapshot.
//   - events?upstream=zendesk is the stream, by server-sent events: hello, then fleet as in fleet.json, or trouble with an error if the
//     store fails.
//   - act takes interventions by POST, if Config.Intervene is set: a form with action (pause, resume or reset), upstream, scope (such as
//     tenant=acme, repeated for each), and to pause also for (such as 30s) and policy. Without a policy, it pauses those with exactly these
//     scopes, or the whole upstream.
package page
