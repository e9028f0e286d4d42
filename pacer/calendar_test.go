package pacer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// If the slot of a call lies beyond the known windows of a calendar, its error has the least possible wait. If the call may wait for longer
// than that, the error does not advise to raise MaxWait.
func TestBeyondACalendar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it begins on January 1, 2000
		p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.Monthly(1, time.UTC)}, MaxWait: pacer.Forever, Jitter: pacer.NoJitter})
		require.NoError(t, err)
		defer closing(t, p)
		for range 6 {
			_, err := p.Reserve(t.Context())
			require.NoError(t, err)
		}
		july := time.Date(2000, time.July, 1, 0, 0, 0, 0, time.UTC)
		refused := func(opts ...pacer.Option) *pacer.LimitError {
			_, err := p.Reserve(t.Context(), opts...)
			var limit *pacer.LimitError
			require.ErrorAs(t, err, &limit)
			require.ErrorIs(t, err, pacer.ErrNotYet)
			return limit
		}
		e := refused(pacer.MaxWait(0))
		require.Contains(t, e.Error(), "at least ")
		require.LessOrEqual(t, e.Wait, time.Until(july), "it is no more than it is")
		require.Positive(t, e.Wait)
		require.Contains(t, e.Error(), "the next slot is at least ")

		e = refused(pacer.MaxWait(time.Until(july) - 1))
		require.NotContains(t, e.Error(), "at least ")
		require.Equal(t, time.Until(july), e.Wait)

		for range 56 {
			_, err := p.Reserve(t.Context())
			require.NoError(t, err)
		}
		e = refused()
		require.Contains(t, e.Error(), "at least ")
		require.Contains(t, e.Error(), "can be reserved ahead (61 windows): try again when")
		require.NotContains(t, e.Error(), "MaxWait")
	})
}
