package simulate

// RunAtMost is Run that asks the store about so many times at most.
var RunAtMost = runPlan
