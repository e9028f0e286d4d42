// Package hooks has the events of a Pacer, for those who log, count or trace its calls: each event is a struct, and a [Set] has a function for
// each. Give sets to pacer.Config.Hooks.
package hooks
