// Package cli is the command line of the command headway.
package cli
