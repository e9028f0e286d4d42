package simulate

// RunAtMost is Run with at most so many requests to the store.
var RunAtMost = runPlan
