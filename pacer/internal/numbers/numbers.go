// Package numbers holds the numbers that the engine in Go and its scripts in Lua have in common: the wire format, and the parameters of the
// algorithms. Each is written only here, or in package store. Package scripts puts them into the scripts.
//
// Times are in microseconds.
package numbers

import (
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Algorithms in the wire format, which determine the parameters.
const (
	GCRA        = int64(specs.GCRA)
	Window      = int64(specs.Window)
	AnyRate     = 3 // a rate that adapts, has exact windows, or that calls are queued for
	Concurrency = int64(specs.Concurrency)
	Allowance   = int64(specs.Allowance)
	Part        = 9 // a window with a pace, or what one keeps for a party
)

// Queues on the wire.
const (
	NoQueue   = int64(specs.NoQueue)
	LaneQueue = int64(specs.QueueOfLane)
	FairQueue = int64(specs.FairQueue)
)

// Flags of a call in the wire format.
const (
	MayQueue = 2 // it is bound by a limit that calls queue for
	AnyOf    = 4 // it is bound by one of some choices of limits
	Keeps    = 8 // it leaves what some limits keep for others
)

// Forgot is the first number of a reply from a server that has lost its data. It cannot be a number of calls.
const Forgot = -(1 << 30)

// Kinds of changes that are published.
const (
	ChangePaused  = 1
	ChangeResumed = 2
	ChangeSlowed  = 3
	ChangeCalled  = 4
	ChangeBegun   = 5
)

// Limits of stored data.
const (
	MaxInteger   = 1 << 53   // a Lua number holds every integer below
	MaxBackstep  = 1_000_000 // store time never goes back by more
	MaxUpstreams = 10_000    // that are enlisted
	KeptResets   = 32        // of an upstream, with what they reset
	MaxReset     = 1024      // bytes of what one of them forgot
)

// Parameters of the search for a slot. A limit may have many free pieces of time that are useless to another. So after ManyRounds a rate
// offers only pieces that are twice as long as the call needs, and doubles that length in each round, until a piece is long enough for all
// limits, or only the time after all reservations is left. After LastRound, windows offer only that time, too.
const (
	ManyRounds = 16
	LastRound  = 48
	// MaxGaps bounds the remembered gaps of a rate, so that its account is one value that is read and written quickly: 1,024 take 14 KiB. A
	// thousand reservations that a slower limit keeps apart leave a thousand gaps, with room for hours of calls.
	MaxGaps = 1024
	// MaxLooks is the most gaps that a search reads before it offers only the tail.
	MaxLooks = 256
	// MaxFull is the most windows without room for the call that a search reads before it offers only the time behind everything. LooksEach
	// of them are as much work as one query of an account.
	MaxFull   = 512
	LooksEach = 16
	// CrowdedLook and MaxCrowded bound the search for slots that the log refuses. Checking a slot costs CrowdedLook, and one for each later
	// start in the window, which are many in front of a long queue. After MaxCrowded, only the tail decides. Near its end there are no more
	// later starts than the burst, so the search ends.
	CrowdedLook = 16
	MaxCrowded  = 512
	// MaxOpened is the most calls of a slower rate between which a faster one makes gaps.
	MaxOpened = 96
	// MaxSwept is the most expired members of a sorted set that a script removes.
	MaxSwept = 1024
	// UnboundSlack is the slack of a call that no policy binds. Any value would do; this one spreads the calls after a pause.
	UnboundSlack = 1_000_000
	// MaxUnpack is the most values that a script gives one command: Lua's unpack fails at some 8,000.
	MaxUnpack = 4000
	// MaxDebt is the most virtual time that is charged at once: the longest period of a policy.
	MaxDebt = int64(specs.MaxPeriod / 1_000)
)

// Parameters of a rate's pace.
const (
	WholeShare = 1_000_000 // shares are in millionths
	// SameEpisode is how long refusals count as one if the upstream requested no pause: calls that have slots go on at the old pace.
	SameEpisode = 1_000_000
	// LittleLess is the part of a share that is left by a refusal right after a fall back to that share.
	LittleLess = 980_000
	// StepFades is how long a step of a margin takes to fade: so long, a limit whose margin is just large enough has no refusal from trying
	// a smaller one.
	StepFades = 96_000_000
)

// Parameters of allowances: see package engine, allowance.go.
const (
	Thousand       = 1000
	Second         = 1_000_000
	TenSeconds     = 10 * Second
	Minute         = 60 * Second
	TenMinutes     = 10 * Minute
	Hour           = 60 * Minute
	Day            = 24 * Hour
	Month          = 31 * Day
	Apart          = 100_000     // between calls after a reset, until one is answered
	Generation     = TenSeconds  // a call that is not answered counts for one to two of these
	AllowanceLives = TenMinutes  // for how long an upstream's account outlasts its statements
	MaxListed      = 64          // allowances of an upstream that a process learns of when it comes
	Lesson         = 16          // answers: fewer change a pace less
	Calms          = 64          // times a pace is how long it takes to double, at least
	Calmly         = 20          // the part by which it grows at first
	LongestGuess   = 15 * Minute // of when there is more
)

// Flags of an answer in the wire format.
const (
	AnswerRefused = 1
	AnswerGuessed = 2 // when there is more
	AnswerTeaches = 4 // a pace
	AnswerOpen    = 8 // the number of calls on their way, in units of this
)

// LongerBy is the largest part by which a calendar window exceeds its usual length: a day of 25 hours, a month of 31 days.
const LongerBy = 24

// LetGo is the last part of a window, a quarter, in which the parts of parties are released. With a twelfth, others could not use all of it
// at one and a half times the mean pace. A party that comes that late finds less than its own.
const LetGo = 4

// A part kept for a party that does not call, while others do, is whole for IdleWindows whole windows. Then it halves with each further
// one, at most so often: a party that comes back must find something, because a refusal notes nothing. With fewer windows, a weekend would
// halve it.
const (
	IdleWindows  = 3
	IdleHalvings = 5
)

// LineUnit is the fraction of a unit of cost in which the line of a paced window counts: 2^53 of it are more than specs.MaxLimit.
const LineUnit = 1000

// Parameters of queues.
const (
	// TagMicro is the length of a microsecond of a rate in virtual time, for weight 1: 2^53 of it last for a hundred days in which the
	// queue is never empty. MaxTagged bounds the virtual time of one call: four days. Like TagStep, it is not round.
	TagMicro  = 1012
	MaxTagged = 345_600_000_000
	// TagStep is the length of a call of weight 1 that needs a permit: 2^53 of it last for nine thousand million calls in one queue, and a
	// call of weight 100 has a hundred units. It is not round, because emulators of Redis cannot read scores that end in many zeros.
	TagStep = 1_012_400
	// TagHeld is the length of a microsecond for which a call of weight 1 has a permit, if that is known: 2^53 of it last for three hundred
	// million seconds of all permits in one queue. A party with all permits, whose weight is 1000, has fifteen units for calls of 50 ms.
	TagHeld = 30
	// TagUnit is the unit of tags. The remainder orders calls of the same tag by arrival.
	TagUnit = 100
	// MaxFlows bounds the remembered flows. Flows with the least lead are dropped first: they may get their next call a little early.
	MaxFlows = 4096
	// CalledLives is how long the queue expects a waiter that it has called: no less than a round trip to the store may take. A later one
	// keeps its position, except under fair shares.
	CalledLives = 300_000
	// MostCalled is the most waiters called at once.
	MostCalled = 32
	// Near is how long before its slot a queued call gets it, and before that no permit, unless the call's way to the store is longer. It
	// suffices for a call that polls a little late, and is short for later calls.
	Near = 40_000
	// PermitNear is how long before its slot a call that is queued only for permits may get them. It is shorter, because a permit idles
	// until the slot, and suffices for a late timer.
	PermitNear = 10_000
	// SoonAgain and the next three set when a queued call polls: when its turn may come, but no sooner than after SoonAgain, no later than
	// after one to two times FarAgain, and for a permit, whose end is unknown, after FrontAgain if it is one of the first Front and there are more
	// permits than calls before it.
	SoonAgain  = 1_000
	FrontAgain = 1_000_000
	FarAgain   = 2_000_000
	Front      = 256
	// WaitGrace is how late a call may poll before it counts as dead.
	WaitGrace = 500_000
)

// Named returns the numbers by their names in the scripts.
func Named() map[string]int64 {
	return map[string]int64{
		"GCRA": GCRA, "AnyRate": AnyRate, "Window": Window, "Concurrency": Concurrency,
		"NoQueue": NoQueue, "LaneQueue": LaneQueue, "FairQueue": FairQueue,
		"MayQueue": MayQueue, "AnyOf": AnyOf, "Forgot": Forgot,
		"BookingDone": int64(store.BookingDone), "BookingLost": int64(store.BookingLost), "BookingChanged": int64(store.BookingChanged), "BookingExpired": int64(store.BookingExpired),
		"BookingPaused": int64(store.BookingPaused), "BookingEarly": int64(store.BookingEarly), "BookingLate": int64(store.BookingLate),
		"NoteResume": int64(store.NoteResume), "NoteSlow": int64(store.NoteSlow), "NoteLearn": int64(store.NoteLearn), "NoteAnswer": int64(store.NoteAnswer),
		"NoteSettle": int64(store.NoteSettle), "NoteClaim": int64(store.NoteClaim), "NoteReset": int64(store.NoteReset), "NoteRenew": int64(store.NoteRenew), "NoteRelease": int64(store.NoteRelease),
		"NoteStray":    int64(store.NoteStray),
		"ChangePaused": ChangePaused, "ChangeResumed": ChangeResumed, "ChangeSlowed": ChangeSlowed,
		"ChangeCalled": ChangeCalled, "ChangeBegun": ChangeBegun,
		"MaxInteger": MaxInteger, "MaxBackstep": MaxBackstep, "MaxUpstreams": MaxUpstreams, "MaxSettings": store.MaxSettings, "OnceTTL": store.OnceTTL.Microseconds(),
		"KeptResets": KeptResets, "MaxReset": MaxReset,
		"ManyRounds": ManyRounds, "LastRound": LastRound, "MaxLooks": MaxLooks, "MaxGaps": MaxGaps, "MaxFull": MaxFull, "LongerBy": LongerBy, "LooksEach": LooksEach, "CrowdedLook": CrowdedLook, "MaxCrowded": MaxCrowded,
		"MaxOpened": MaxOpened, "MaxSwept": MaxSwept, "UnboundSlack": UnboundSlack, "MaxUnpack": MaxUnpack, "MaxDebt": MaxDebt,
		"WholeShare": WholeShare, "SameEpisode": SameEpisode, "StepFades": StepFades, "LittleLess": LittleLess,
		"Allowance": Allowance, "Thousand": Thousand, "Second": Second, "TenSeconds": TenSeconds, "Minute": Minute, "TenMinutes": TenMinutes, "Hour": Hour, "Day": Day, "Month": Month, "Apart": Apart, "Generation": Generation, "AllowanceLives": AllowanceLives,
		"LongestGuess": LongestGuess, "Lesson": Lesson, "Calms": Calms, "Calmly": Calmly, "MaxListed": MaxListed, "AnswerRefused": AnswerRefused, "AnswerGuessed": AnswerGuessed, "AnswerTeaches": AnswerTeaches, "AnswerOpen": AnswerOpen,
		"LetGo": LetGo, "IdleWindows": IdleWindows, "IdleHalvings": IdleHalvings, "LineUnit": LineUnit, "Part": Part, "Keeps": Keeps, "TagStep": TagStep, "TagMicro": TagMicro, "MaxTagged": MaxTagged, "TagHeld": TagHeld, "TagUnit": TagUnit, "MaxFlows": MaxFlows, "CalledLives": CalledLives, "MostCalled": MostCalled,
		"Near": Near, "PermitNear": PermitNear,
		"SoonAgain": SoonAgain, "FrontAgain": FrontAgain, "FarAgain": FarAgain, "Front": Front, "WaitGrace": WaitGrace,
	}
}
