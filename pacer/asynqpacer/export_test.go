package asynqpacer

// Of tests.
var (
	MiddlewareWith = middleware
	WholeSeconds   = wholeSeconds
)
