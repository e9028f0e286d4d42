// Package page shows in a browser how upstreams stand: live charts of what goes and what waits, which policy binds, what is
// left of the quota, pauses, the processes, and the busiest tenants. It is an [http.Handler], in the manner of
// net/http/pprof, to be mounted in a server of your own, behind your own authentication:
//
//	h, err := page.New(page.Config{Operators: []*fleet.Operator{fleet.Of(p)}, Hosts: []string{"ops.example"}})
//	mux.Handle("/debug/headway/", requireAdmin(h))
//
// Any mount point works, with http.StripPrefix or without, as long as its subtree is mounted, too. Everything that a browser
// loads comes from the handler: it needs no network.
//
// The page shows the names of tenants to anyone who can open it, and with Config.Intervene lets them stop a fleet. It knows no
// users: who may see it is up to what is in front of it. It answers only to loopback and to Config.Hosts.
//
// An operator is asked twice a second, by one poller for all who look at its upstream; when nobody looks, nothing runs. A tab
// in the background does not look.
//
// # Addresses
//
// Relative to the mount point:
//
//   - ./ is the page; ?upstream= chooses one, and defaults to the first.
//   - fleet.json?upstream=zendesk&scope=tenant=acme is the same once, as JSON, for scripts: a fleet.Snapshot.
//   - events?upstream=zendesk is the stream, by server-sent events: hello, then fleet as in fleet.json, or trouble with
//     an error if the store fails.
//   - act takes interventions by POST, if Config.Intervene is set: a form with action (pause, resume or reset), upstream, scope
//     (such as tenant=acme, repeated for each), and to pause also for (such as 30s) and policy. Without a policy, a pause is of
//     those that have just these scopes, or of the whole upstream.
package page
