package riverpacer

import (
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/headway-go/headway/pacer"
)

// OnTurn has a function called for each turn of a job.
func OnTurn(turn func(*rivertype.JobRow, time.Time, *pacer.Reservation, error)) Option {
	return func(m *Middleware) { m.turn = turn }
}
