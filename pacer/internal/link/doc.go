// Package link is the way to a shared store: each request ends in time, whatever becomes of the store.
//
// A request has a budget, from when it has a connection: see package deadline. Before the first contact the budget is larger, since the store
// may be slow to start. When the budget is used up, or when another request has shown that the store is lost (Abandon), its caller waits no
// longer; the operation may end later. Only requests that reserve, from a store that is punctual, run in the goroutine of their call.
//
// An error that is about one stack ([store.Unfit]) is that stack's. Any other failure, and an answer that comes too late, is an
// [store.ErrUnreachable].
package link
