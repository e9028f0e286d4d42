// Package shares makes up mixes of parties that share one limit, plays them, and compares what each got with what it should. Only tests
// import it.
//
// The oracle shares no code with the engine: at each instant it divides what there is by weighted max-min over parties, and what a party
// has over its tenants, by what calls really cost. It knows all demand beforehand and divides calls, so nobody can do better.
//
// A mix is played on any store, and in virtual time: in a bubble of testing/synctest.
package shares
