// Package hooks has the events of a Pacer, for logs, counts or traces of its calls: each event is a struct, and a [Set] has a function for
// each. Give sets to pacer.Config.Hooks.
package hooks
