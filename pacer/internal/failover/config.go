package failover

import (
	"time"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Config sets how a member behaves.
type Config struct {
	Upstream  string
	Mode      Mode
	Timeout   time.Duration     // for how long the shared store may take to answer
	Processes int               // how many there are at most; 0 if that is not known: then calls may have to wait, in mode Local
	Policies  []policies.Policy // of all limits, those of lanes included

	InForce InForce
	Owner   Owner
}

// InForce is which policies the process has.
type InForce interface {
	// PolicyOf returns the policy of a limit, as it holds for its key.
	PolicyOf(l *store.Limit) policies.Policy
	// Read receives what operators have set: when the process joins, and whenever that may have changed.
	Read(all *store.Settings)
	// SetFair receives the names of the policies that some process shares fairly, if processes have different ones; nil if they do not.
	SetFair(names []string)
}

// An Owner is the process that a member takes part for.
type Owner interface {
	// Permits returns which calls of the process are in flight: the one that decides must know.
	Permits() []readings.Report
	// About returns what the process reports to a registry, and a function to call when the report has arrived, with the number of different
	// lists of policies that processes have.
	About(now store.Instant, left bool) (about store.About, received func(versions int))
	// Requested receives every request to the shared store: what it was, for how many reservations, and its error.
	Requested(op string, calls int, took time.Duration, err error)
	// Resumed receives what was resumed or reset, as far as the process finds it out by the epoch of the store's data.
	Resumed(all []store.Change)
	// FailedOver receives each loss of the shared store and each return to it.
	FailedOver(c Change)
}

// A Change is a loss of the shared store, or a return to it.
type Change struct {
	Lost      bool
	Never     bool          // it is Lost because it has never answered: calls wait for the first contact
	Processes int           // of a loss, how many shares there are; 0 if this process has none
	For       time.Duration // how long it was lost
	Dropped   int           // of a return: how much could not be given back, and stays charged
	Err       error         // why it is
}

// A Mode is what happens to calls while the shared store is out of reach.
type Mode uint8

// Modes.
const (
	Local      Mode = iota // this process decides, within its share of every limit
	Refuse                 // nothing goes
	LetThrough             // everything goes
)
