// Package report shows the state of an upstream: as a table for people, and as JSON for programs.
package report
