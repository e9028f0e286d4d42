// Package jobtest runs workers of a job queue in processes of their own, and judges when their jobs went. Only tests import it.
//
//	test ---- starts ----> worker processes (the test's own program, with Env set)
//	  ^                        | each turn of a job, as a line of JSON
//	  +---- judges all turns --+
//
// A worker that fails makes the test fail; what it writes to stderr is in the test's output. No turn is lost: its line is flushed before the
// job goes on.
package jobtest
