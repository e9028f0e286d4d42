package server_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/page/internal/server"
	"github.com/headway-go/headway/policies"
)

func TestStreamBeginsWithEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, newFake("zendesk"), newFake("salesforce"))
		w := watch(h, "/events?upstream=salesforce")
		synctest.Wait()
		first := w.take()
		require.Equal(t, "text/event-stream", w.header.Get("Content-Type"))
		require.Equal(t, []string{"hello", "fleet"}, names(t, first))
		require.Contains(t, first, `{"upstreams":["zendesk","salesforce"],"upstream":"salesforce","intervene":false,"maxPause":3600}`)
		require.Contains(t, first, `"upstream":"salesforce","at":"2023-11-14T22:13:20Z"`)

		time.Sleep(server.DefaultInterval)
		synctest.Wait()
		require.Equal(t, []string{"fleet"}, names(t, w.take()))
		w.leave()
		<-w.left
	})
}

func TestOnePollerForAllWhoLookAndNoneForNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, other := newFake("zendesk"), newFake("salesforce")
		h := newHandler(t, f, other)
		time.Sleep(time.Minute)
		require.Zero(t, f.requested.Load(), "nobody looks")

		a := watch(h, "/events")
		synctest.Wait()
		b, c := watch(h, "/events"), watch(h, "/events?upstream=zendesk")
		synctest.Wait()
		require.Equal(t, int64(1), f.requested.Load())
		require.Equal(t, []string{"hello", "fleet"}, names(t, b.take()), "a late viewer need not wait for the next figures")

		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, int64(21), f.requested.Load(), "twice a second, however many look")
		require.Zero(t, other.requested.Load(), "nobody looks at that one")

		a.leave()
		b.leave()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, int64(23), f.requested.Load(), "one looks still")
		c.leave()
		<-c.left
		synctest.Wait()
		time.Sleep(time.Minute)
		require.Equal(t, int64(23), f.requested.Load(), "nobody looks any more")

		d := watch(h, "/events")
		synctest.Wait()
		require.Equal(t, int64(24), f.requested.Load(), "the next one starts it again, once")
		require.Equal(t, []string{"hello", "fleet"}, names(t, d.take()))
		d.leave()
		<-d.left
	})
}

func TestStreamShowsTroubleAndGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake("zendesk")
		h := newHandler(t, f)
		w := watch(h, "/events")
		synctest.Wait()
		f.fail(errStore)
		w.take()
		time.Sleep(server.DefaultInterval)
		synctest.Wait()
		require.Equal(t, "event: trouble\ndata: {\"error\":\"the store is on fire\"}\n\n", w.take())
		f.fail(nil)
		time.Sleep(server.DefaultInterval)
		synctest.Wait()
		require.Equal(t, []string{"fleet"}, names(t, w.take()))
		w.leave()
		<-w.left
	})
}

func TestStreamOfASourceThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake("zendesk")
		f.hangs = true
		h := newHandler(t, f)
		w := watch(h, "/events")
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"hello", "trouble", ":"}, names(t, w.take()), "an error after five seconds, a heartbeat after ten")
		w.leave()
		<-w.left
	})
}

func TestWhoIsSlowDelaysNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, stuck := newFake("zendesk"), make(chan struct{})
		h := newHandler(t, f)
		slow, other := watchSlowly(h, "/events", stuck), watch(h, "/events")
		time.Sleep(10*time.Second - time.Millisecond)
		synctest.Wait()
		require.Len(t, names(t, other.take()), 21)
		f.fail(errStore)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		close(stuck)
		synctest.Wait()
		require.Subset(t, []string{"hello", "trouble", ":"}, names(t, slow.take()), "it gets what is known now, and nothing that is old")
		for _, w := range []*watcher{slow, other} {
			w.leave()
			<-w.left
		}
	})
}

func TestCloseEndsStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, hanging := newFake("zendesk"), newFake("salesforce")
		hanging.hangs = true
		h := newHandler(t, f, hanging)
		a, b := watch(h, "/events"), watch(h, "/events?upstream=salesforce")
		synctest.Wait()
		before := time.Now()
		h.Close()
		<-a.left
		<-b.left
		require.Equal(t, before, time.Now(), "at once, whether the source is asked or not")
		late := get(h, "/events")
		require.Equal(t, http.StatusServiceUnavailable, late.Code)
		require.Contains(t, late.Body.String(), "the page is closed")
		h.Close() // again does nothing
	})
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, newFake("zendesk"))
		var all []*watcher
		for range 256 {
			all = append(all, watch(h, "/events"))
		}
		synctest.Wait()
		w := get(h, "/events")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "too many look at this upstream already")
		for _, one := range all {
			one.leave()
			<-one.left
		}
	})
}

// deaf hides what a ResponseWriter can do beyond writing, as careless middleware does.
type deaf struct{ http.ResponseWriter }

func TestStreamNeedsFlush(t *testing.T) {
	t.Parallel()
	f := newFake("zendesk")
	h := newHandler(t, f)
	w := httptest.NewRecorder()
	h.ServeHTTP(deaf{w}, httptest.NewRequest(http.MethodGet, "/events", nil))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "hides Flush")
}

func TestHostileScopes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake("zendesk")
		for _, scope := range []string{
			"tenant=<script>alert(1)</script>", "tenant=a\n\nevent: hello\ndata: {}\n\n", "tenant=\x00\xff\u2028", `tenant="><img src=x onerror=alert(1)>`,
		} {
			f.snapshot.TopKeys = append(f.snapshot.TopKeys, fleet.TopKey{
				PolicyStatus: pacer.PolicyStatus{Policy: policies.PerSecond(1).Per("tenant"), Scope: scope},
			})
		}
		h := newHandler(t, f)
		w := watch(h, "/events")
		synctest.Wait()
		got := w.take()
		require.Equal(t, []string{"hello", "fleet"}, names(t, got), "no value can end an event or begin another")
		require.NotContains(t, got, "<script>")
		require.NotContains(t, got, "<img")
		w.leave()
		<-w.left
		once := get(h, "/fleet.json")
		require.Equal(t, "application/json", once.Header().Get("Content-Type"))
		require.NotContains(t, once.Body.String(), "<script>")
	})
}
