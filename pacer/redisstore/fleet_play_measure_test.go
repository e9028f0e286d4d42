//go:build measure

package redisstore_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// job is the task of the processes of a fleet.
type job struct {
	Fleet     string
	Variant   string // tells fleets of the same policies apart
	Redis     string
	URL       string
	Duration  time.Duration
	Crews     []crew
	Process   int
	Processes int       // how many there are
	HTTP      bool      // the upstream's answers are heeded: calls go through the transport, or are reported by hand
	Task      string    // what the processes do, by its name in tasks; "": they pace their crews
	Begin     time.Time // when the task begins, for all processes; zero: when all are there
	Until     time.Time // when it ends, in place of Duration
	Doomed    int       // how many processes are killed on the way
	Reported  bool      // the run ends when meanwhile has returned, at the latest after Duration
	Tenants   []string  // if every policy is one for each tenant: all of them

	before    func(*scene) // what happens before they start
	meanwhile func(*scene) // what happens while they run
	store     *noted       // of a process
}

// A scene is where a fleet plays.
type scene struct {
	t         *testing.T
	server    *redistest.Server
	processes []*exec.Cmd
	job       *job
}

// played is what came of a fleet.
type played struct {
	*scene

	sum  map[string]tally // by tenant
	late measure.Lateness // of the latest process
	all  []outing
}

func (p *played) calls() []outing { return append([]outing(nil), p.all...) }

// crewed is the same crews for each process.
func crewed(crews ...crew) func(int) []crew { return func(int) []crew { return crews } }

// play runs the processes of a fleet against an upstream.
func play(t *testing.T, upstream http.Handler, j job, crews func(process int) []crew) *played {
	t.Helper()
	server := httptest.NewServer(upstream)
	defer server.Close()
	p := &played{scene: &scene{t: t, server: redistest.Start(t), job: &j}, sum: make(map[string]tally)}
	if j.before != nil {
		j.before(p.scene)
	}
	parts := make([]findings, fleetSize)
	var ends []io.Closer
	var g errgroup.Group
	for i := range fleetSize {
		j.Redis, j.URL, j.Process, j.Processes, j.Crews = p.server.Addr, server.URL, i, fleetSize, crews(i)
		spec, err := json.Marshal(j)
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"=fleet "+string(spec))
		cmd.Stderr = os.Stderr
		var out bytes.Buffer
		cmd.Stdout = &out
		end, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		p.processes, ends = append(p.processes, cmd), append(ends, end)
		g.Go(func() error {
			switch err := cmd.Wait(); {
			case err != nil && i < j.Doomed:
				return nil
			case err != nil:
				return fmt.Errorf("process %d: %w", i, err)
			}
			if err := json.Unmarshal(out.Bytes(), &parts[i]); err != nil {
				return fmt.Errorf("%w: %.200s", err, out.Bytes())
			}
			return nil
		})
	}
	if j.meanwhile != nil {
		j.meanwhile(p.scene)
	}
	if j.Reported {
		for _, end := range ends {
			_ = end.Close()
		}
	}
	require.NoError(t, g.Wait())
	p.add(parts)
	return p
}

// add adds up what processes found.
func (p *played) add(parts []findings) {
	for i := range parts {
		p.late = measure.Max(p.late, parts[i].Late)
		for tenant, part := range parts[i].Tallies {
			all := p.sum[tenant]
			all.Offered += part.Offered
			all.Went += part.Went
			all.Refused += part.Refused
			all.Waits = append(all.Waits, part.Waits...)
			all.Calls = append(all.Calls, part.Calls...)
			p.sum[tenant] = all
			for _, o := range part.Calls {
				o.process = i
				p.all = append(p.all, o)
			}
		}
	}
}

// charged returns how many calls the store has charged.
func (s *scene) charged() (sum int64) {
	s.t.Helper()
	if s.job.Tenants == nil {
		return bookedLimit - s.look(booked).Remaining
	}
	store, err := redisstore.New(s.server.Client())
	require.NoError(s.t, err)
	p, err := pacer.New(pacer.Config{Upstream: s.job.upstream(), Store: store, Policies: s.job.policies(), StoreTimeout: patience})
	require.NoError(s.t, err)
	defer p.Close()
	for _, tenant := range s.job.Tenants {
		status, err := p.Status(s.t.Context(), pacer.Scope("tenant", tenant))
		require.NoError(s.t, err)
		sum += bookedLimit - status.Policies[len(status.Policies)-1].Remaining
	}
	return sum
}

// look returns how the store sees one policy of the fleet, which has no scope.
func (s *scene) look(policy policies.Policy) store.LimitStatus {
	s.t.Helper()
	status, err := s.lookAt(policy)
	require.NoError(s.t, err)
	return status
}

func (s *scene) lookAt(policy policies.Policy) (store.LimitStatus, error) {
	backing, err := redisstore.New(s.server.Client())
	if err != nil {
		return store.LimitStatus{}, err
	}
	stack := store.Stack{Upstream: s.job.upstream(), Limits: []store.Limit{{Policy: policy.Name(), Spec: policy.Spec()}}}
	status, err := backing.Status(s.t.Context(), stack)
	if err != nil {
		return store.LimitStatus{}, err
	}
	return status.Limits[0], nil
}

// requireTruth fails the test if the calls that the store granted break a rule. Local calls depend on the machine's timers.
func requireTruth(t *testing.T, p *played, rules ...rule) {
	t.Helper()
	calls := slices.DeleteFunc(p.calls(), func(o outing) bool { return o.local() })
	require.NotEmpty(t, calls)
	require.Empty(t, referee(calls, rules...))
}
