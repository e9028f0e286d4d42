// Package report says how an upstream stands: as a table for people, and as JSON for programs.
package report
