// Package fleet is what operators see of an upstream and do to it: all processes that pace it with one store, together. The command
// headway and package page are made of it.
//
// [Open] needs nothing but the store, so that it serves a program that makes no calls itself:
//
//	op, err := fleet.Open(ctx, store, "zendesk")
//	if err != nil {
//		return err
//	}
//	defer op.Close()
//	s, err := op.Snapshot(ctx)
//	if err != nil {
//		return err
//	}
//	if b := s.Binding(); b != nil {
//		fmt.Println(s.Waiters(), "calls wait, most of them for", b.Policy)
//	}
//	err = op.Pause(ctx, 10*time.Minute, nil) // of the whole upstream, for every process
//
// [Of] serves a process that has a [pacer.Pacer] already, such as one in which a page is mounted.
//
// An [Operator] is none of the processes of a fleet and cannot make calls: it has no Wait. A [Snapshot] is read from the store:
// processes report to it every few seconds, and those of a large fleet once a minute (see [store.Registry]). Looking changes nothing.
package fleet
