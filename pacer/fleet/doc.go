// Package fleet lets operators observe an upstream and intervene, for all processes that pace it with one store. The command headway and
// package page use it.
//
// Use [Open] in a program that makes no calls itself. It needs only the store:
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
// Use [Of] in a process that already has a [pacer.Pacer], such as one that serves a page.
//
// An Operator is no process of the fleet and cannot make calls. A Snapshot is read from the store, to which processes report every few
// seconds, and those of a large fleet once a minute (see [store.Registry]). Reading it changes nothing.
package fleet
