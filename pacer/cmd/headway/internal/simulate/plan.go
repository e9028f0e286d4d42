package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Defaults of a [Plan] and of a [Load].
const (
	DefaultFor      = 10 * time.Minute
	DefaultStart    = "2026-01-01"
	DefaultWorkers  = 16
	DefaultCallTime = 100 * time.Millisecond
	// DefaultStoreLatency is how long the store takes to answer: about a request to Redis on the same network.
	DefaultStoreLatency = 200 * time.Microsecond
	// DefaultTimerLate is the most by which timers are late, evenly. Timers of Go's runtime are 0.6 ms late in the median and 1.1 ms in the
	// 99th percentile (docs/benchmarks, Precision).
	DefaultTimerLate = 1100 * time.Microsecond
)

// A Plan is a stack of policies, and the calls that are offered to it.
type Plan struct {
	// Policies are the stack, as [pacer.Config] has them.
	Policies []policies.Policy `json:"policies"`
	// Loads are the callers. Defaults to one [Load].
	Loads []Load `json:"loads"`
	// For is the time to simulate. Defaults to [DefaultFor].
	For Duration `json:"for"`
	// Start is its beginning, for windows of the clock and of the calendar: a day, a minute of one, an instant by RFC 3339, or a time of
	// the day of DefaultStart, such as "09:30". Without a zone it is UTC. Defaults to [DefaultStart], at midnight.
	Start string `json:"start"`
	// MaxWait is the longest that a call waits: see pacer.Config. Defaults to one minute.
	MaxWait Duration `json:"maxWait"`
	// Retry is after how long a worker whose call was refused makes the next one. Defaults to 0: after the wait in the error, or a second
	// if that is unknown.
	Retry Duration `json:"retry"`
	// Seed seeds the random numbers. The same plan with the same seed has the same result. Defaults to 1.
	Seed uint64 `json:"seed"`
	// StoreLatency is how long the store takes to answer; 0 for one in memory. Defaults to [DefaultStoreLatency].
	StoreLatency Duration `json:"storeLatency"`
	// TimerLate is the most by which timers are late. Defaults to [DefaultTimerLate].
	TimerLate Duration `json:"timerLate"`
	// Jitter is the most by which a waiting call goes later: see pacer.Config; 0 for none. Defaults to 10 ms.
	Jitter Duration `json:"jitter"`
}

// A Load is callers of one kind: workers that make one call after the other, or, with a Rate, calls that come whatever happens to earlier
// ones.
type Load struct {
	// Name is the name of the tenants and of the result. Defaults to "tenant".
	Name string `json:"name"`
	// Processes is the number of processes, each with Workers. Defaults to 1 and [DefaultWorkers].
	Processes int `json:"processes"`
	Workers   int `json:"workers"`
	// Think is how long a worker rests after a call. Defaults to 0.
	Think Duration `json:"think"`
	// Rate is how many calls come per second, in place of workers, at random (a Poisson process). Defaults to 0: workers call.
	Rate float64 `json:"rate"`
	// Steady makes the calls of a Rate come at equal distances.
	Steady bool `json:"steady"`
	// CallTime is how long a call takes. Defaults to [DefaultCallTime].
	CallTime Duration `json:"callTime"`
	// Exponential makes CallTime a mean: some calls take much longer, and many are short.
	Exponential bool `json:"exponential"`
	// Tenants is the number of tenants. A call carries the name of its tenant in every scope that the policies name, unless Scopes gives a
	// value. Defaults to 1.
	Tenants int `json:"tenants"`
	// Greedy is the first tenant's part of the workers, or of the rate; the others have the rest in equal parts. Defaults to 0: all have
	// equal parts.
	Greedy float64 `json:"greedy"`
	// Scopes are values that all calls carry. An empty one stands for none: policies that need it must be optional.
	Scopes map[string]string `json:"scopes"`
	// Lane is the lane of the calls, such as "batch", or of a part of them: "batch=0.5". Defaults to none.
	Lane string `json:"lane"`
	// Cost is what each call costs. Defaults to 1.
	Cost int64 `json:"cost"`
}

// DefaultPlan returns a plan of defaults, without policies.
func DefaultPlan() Plan {
	return Plan{
		For: Duration(DefaultFor), Start: DefaultStart, MaxWait: Duration(time.Minute), Seed: 1,
		StoreLatency: Duration(DefaultStoreLatency), TimerLate: Duration(DefaultTimerLate), Jitter: Duration(10 * time.Millisecond),
	}
}

// DefaultLoad returns the default load.
func DefaultLoad() Load {
	return Load{Name: "tenant", Processes: 1, Workers: DefaultWorkers, CallTime: Duration(DefaultCallTime), Tenants: 1, Cost: 1}
}

// Duration is a time.Duration that is written like "1m30s".
type Duration time.Duration

// String implements fmt.Stringer.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration: write it like 90s or 1h30m", text)
	}
	*d = Duration(v)
	return nil
}

// micros returns the duration in store time.
func (d Duration) micros() store.Instant { return store.Instant(time.Duration(d).Microseconds()) }

// UnmarshalJSON implements json.Unmarshaler: absent fields have their defaults, and an unknown one is an error.
func (l *Load) UnmarshalJSON(text []byte) error {
	type plain Load // without this method
	one := plain(DefaultLoad())
	if err := strictly(bytes.NewReader(text), &one); err != nil {
		return err
	}
	*l = Load(one)
	return nil
}

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// read reads a plan from JSON. Absent fields stay as they are.
func (p *Plan) read(r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return err
	}
	if len(text) > maxFile {
		return fmt.Errorf("is longer than %d bytes: is it the right file?", maxFile)
	}
	return strictly(bytes.NewReader(text), p)
}

// strictly decodes one JSON value into v, without fields that v does not have.
func strictly(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("is empty: write a JSON object with policies")
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the JSON object: leave it out")
	}
	return nil
}
