// Package redistest runs real redis-server processes for tests: one server, with or without TLS; a cluster of three masters, with or
// without replicas; a master that a sentinel watches, with or without a replica.
//
// Tests can make them fail as in production: servers are stopped, restarted, paused and promoted, slots move, replicas take over.
//
// A test gets servers of its own, on free loopback ports, that keep nothing on disk and die with the test. Without a server binary the test
// is skipped; with CI=true in the environment it fails instead, so that a build machine cannot pass by testing nothing.
//
// HEADWAY_REDIS_SERVER names another binary, for example valkey-server. It must be the server itself, not a wrapper that forks it. The
// default is redis-server, then valkey-server.
//
// Only tests may import this package.
package redistest
