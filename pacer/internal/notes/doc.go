// Package notes packs notes about limits (a pause, a settlement, a claim …) into reports that a store can take at once: at most MaxNotes
// notes about at most MaxLimits limits, so that no run of a script takes long.
//
// It has no states and cannot fail. Notes stay in the order in which they were added, and those about one limit that were added together
// stay in one report as long as they fit.
package notes
