//go:build workers

package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// The last two rows of the table of docs/recipes.md: a refused call comes back when its slot does. To compile their modules takes minutes,
// so `make compat` runs this.
func TestTheWorkersOfTheTable(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(t *testing.T, p *pacer.Pacer) time.Duration{
		"temporal": func(t *testing.T, p *pacer.Pacer) time.Duration {
			t.Helper()
			activity := func(ctx context.Context) error {
				err := p.Wait(ctx, pacer.MaxWait(time.Minute))
				if wait, ok := pacer.RetryAfter(err); ok {
					return temporal.NewApplicationErrorWithOptions("paced", "paced", temporal.ApplicationErrorOptions{Cause: err, NextRetryDelay: wait})
				}
				return err
			}
			env := new(testsuite.WorkflowTestSuite).NewTestActivityEnvironment()
			env.RegisterActivity(activity)
			_, err := env.ExecuteActivity(activity)
			if err == nil {
				return 0
			}
			var refused *temporal.ApplicationError
			require.ErrorAs(t, err, &refused)
			return refused.NextRetryDelay()
		},
		"controller-runtime": func(t *testing.T, p *pacer.Pacer) time.Duration {
			t.Helper()
			reconciler := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				err := p.Wait(ctx, pacer.MaxWait(time.Minute))
				if wait, ok := pacer.RetryAfter(err); ok {
					return reconcile.Result{RequeueAfter: wait}, nil
				}
				return reconcile.Result{}, err
			})
			result, err := reconciler.Reconcile(t.Context(), reconcile.Request{})
			require.NoError(t, err)
			return result.RequeueAfter
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := pacer.New(pacer.Config{Upstream: name, Policies: []policies.Policy{policies.Every(time.Hour)}})
			require.NoError(t, err)
			defer p.Close()
			require.Zero(t, work(t, p), "the first call goes")
			wait := work(t, p)
			require.Positive(t, wait)
			require.LessOrEqual(t, wait, time.Hour)
		})
	}
}
