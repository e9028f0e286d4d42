package asynqpacer

// Of tests.
var (
	MiddlewareWith = middleware
	Due            = due
	Options        = options
)
