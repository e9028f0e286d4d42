// Package recipes compiles and runs the code of docs/recipes.md and docs/testing.md, and the programs of docs/errors.md, docs/inbound.md and
// docs/jobs.md. It is a module of its own, with only tests, because the recipes use vendors' SDKs.
//
// Each block of a page is written to a file as it is, built, and run with the network of a stand-in: a proxy that answers for the vendors.
package recipes
