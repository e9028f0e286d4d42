package memstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A call overtakes none that is queued, even if there is room for it.
func TestAdmitOvertakesNobody(t *testing.T) {
	t.Parallel()
	m := memstore.New()
	limit := store.Limit{Policy: "p", Spec: policies.Rate(2, time.Hour).Burst(2).Reserve("desk", 30).Spec()}
	stack := store.Stack{Upstream: "api", Limits: []store.Limit{limit}}
	a := store.Admission{Cost: 1, Len: 1, Limits: [store.MaxAdmission]store.Bound{{Limit: m.Prepare("api", &limit)}}}
	var grants [3]store.Grant
	calls := [3]store.Call{{Cost: 1, ID: 1}, {Cost: 1, ID: 2}, {Cost: 1, ID: 3, MaxWait: time.Hour}}
	require.NoError(t, m.Reserve(t.Context(), stack, calls[:], grants[:]))
	require.True(t, grants[0].OK && grants[1].OK && grants[2].Queued)
	require.NoError(t, m.Cancel(t.Context(), stack, grants[1:2]))
	require.False(t, m.Admit(a))
	_, _, err := m.Report(t.Context(), stack, []store.Note{{Kind: store.NoteRelease, Value: 3}})
	require.NoError(t, err)
	require.True(t, m.Admit(a))
}
