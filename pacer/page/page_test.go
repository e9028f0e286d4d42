package page_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/page"
	"github.com/headway-go/headway/policies"
)

func newPacer(t *testing.T, upstream string) *pacer.Pacer {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: upstream, Policies: []policies.Policy{policies.PerSecond(10).Burst(3).Named("peak")}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func TestNewRefusesMistakes(t *testing.T) {
	t.Parallel()
	op := fleet.Of(newPacer(t, "zendesk"))
	for _, one := range []struct {
		config      page.Config
		field, want string
	}{
		{page.Config{}, "Operators", "page: Operators is empty: name at least one operator to show"},
		{page.Config{Operators: []*fleet.Operator{op, fleet.Of(nil)}}, "Operators[1]", "page: Operators[1] is nil: give an operator that fleet.Of or fleet.Open returned"},
		{page.Config{Operators: []*fleet.Operator{op, fleet.Of(newPacer(t, "zendesk"))}}, "Operators[1]", `page: Operators[1] is "zendesk": the upstream of an earlier operator`},
		{page.Config{Operators: []*fleet.Operator{op}, Hosts: []string{"ops.example", ""}}, "Hosts[1]", `page: Hosts[1] is "": must be a name or an address`},
		{page.Config{Operators: []*fleet.Operator{op}, Hosts: []string{"ops.example:80"}}, "Hosts[0]", "without a port"},
		{page.Config{Operators: []*fleet.Operator{op}, Hosts: []string{"http://ops.example"}}, "Hosts[0]", "must be a name or an address"},
		{page.Config{Operators: []*fleet.Operator{op}, Hosts: []string{"[::1]"}}, "Hosts[0]", "must be a name or an address"},
		{page.Config{Operators: []*fleet.Operator{op}, Interval: time.Millisecond}, "Interval", "page: Interval is 1ms: must be at least 100ms"},
		{page.Config{Operators: []*fleet.Operator{op}, Interval: -time.Second}, "Interval", "page: Interval is -1s: must be at least 100ms"},
	} {
		h, err := page.New(one.config)
		require.Nil(t, h)
		var config *pacer.ConfigError
		require.ErrorAs(t, err, &config)
		require.Equal(t, "page", config.In)
		require.Equal(t, one.field, config.Field)
		require.ErrorContains(t, err, one.want)
	}
}

// A stream goes over a real connection, outlives the server's time for an answer, and does not keep the server from ending.
func TestStreamOverTheNetwork(t *testing.T) {
	t.Parallel()
	h, err := page.New(page.Config{Operators: []*fleet.Operator{fleet.Of(newPacer(t, "zendesk")), fleet.Of(newPacer(t, "salesforce"))}, Interval: page.MinInterval})
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.StripPrefix("/ops", h))
	s.Config.WriteTimeout = 300 * time.Millisecond
	s.Config.RegisterOnShutdown(func() { _ = h.Close() })
	s.Start()
	defer s.Close()

	reply, err := s.Client().Get(s.URL + "/ops/events?upstream=salesforce")
	require.NoError(t, err)
	defer reply.Body.Close()
	require.Equal(t, http.StatusOK, reply.StatusCode)
	lines, events, enough := bufio.NewScanner(reply.Body), 0, 1+int(2*s.Config.WriteTimeout/page.MinInterval)
	lines.Buffer(nil, 1<<20)
	for events < enough && lines.Scan() {
		if strings.HasPrefix(lines.Text(), `data: {"upstream":"salesforce"`) {
			events++
		}
	}
	require.NoError(t, lines.Err())
	require.Equal(t, enough, events, "it goes on for longer than WriteTimeout")

	require.NoError(t, s.Config.Shutdown(t.Context()), "no stream holds it up")
	for lines.Scan() { // what was on its way
	}
	require.NoError(t, lines.Err(), "the stream ended as it should")
}

func TestReadOnlyByDefault(t *testing.T) {
	t.Parallel()
	p := newPacer(t, "zendesk")
	h, err := page.New(page.Config{Operators: []*fleet.Operator{fleet.Of(p)}})
	require.NoError(t, err)
	defer h.Close()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "http://localhost/act", strings.NewReader("action=pause&for=1m"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), "page.Config.Intervene")
	require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
}

// The page is for loopback, and for the hosts that are named.
func TestOtherHostsAreRefused(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]int{
		"localhost:8711": 200, "127.0.0.1": 200, "ops.example": 200, "ops.example:8711": 200, "[2001:db8::7]": 200, "evil.example": 421,
	} {
		h, err := page.New(page.Config{Operators: []*fleet.Operator{fleet.Of(newPacer(t, "zendesk"))}, Hosts: []string{"ops.example", "2001:db8::7"}})
		require.NoError(t, err)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://"+host+"/fleet.json", nil))
		require.Equal(t, want, w.Code, host)
		require.NoError(t, h.Close())
	}
}

// The page shows the pacer's own words.
func TestAgreesWithTheError(t *testing.T) {
	t.Parallel()
	p := newPacer(t, "zendesk")
	h, err := page.New(page.Config{Operators: []*fleet.Operator{fleet.Of(p)}})
	require.NoError(t, err)
	defer h.Close()
	require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"peak"}, Wait: time.Hour}))
	err = p.Wait(t.Context(), pacer.MaxWait(0))
	var limit *pacer.LimitError
	require.ErrorAs(t, err, &limit)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/fleet.json", nil))
	require.Regexp(t, `"pausedSeconds":35\d\d\.`, w.Body.String(), "the rest of an hour")
	require.Contains(t, w.Body.String(), `"name":"`+limit.Policy+`"`)
}
