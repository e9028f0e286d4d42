package redisstore

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// ints makes a script's reply of bytes: small numbers of one byte, hostile ones of a mark, and any of eight.
func ints(raw []byte) []int64 {
	hostile := []int64{math.MinInt64, math.MaxInt64, math.MinInt64 + 1, 1 << 53, -1 << 53, 1 << 31, -1}
	var all []int64
	for len(raw) > 0 && len(all) < 1<<12 {
		b := raw[0]
		raw = raw[1:]
		switch {
		case b < 200:
			all = append(all, int64(b)-40)
		case b < 250:
			all = append(all, hostile[int(b)%len(hostile)])
		case len(raw) >= 8:
			all, raw = append(all, int64(binary.LittleEndian.Uint64(raw))), raw[8:]
		}
	}
	return all
}

// Any answer of a server to a reservation is grants that a Pacer can use, or an error, and never a panic.
func FuzzParseGrants(f *testing.F) {
	f.Add([]byte{41, 45, 40, 50, 40, 41, 40, 40, 40}, uint8(3), false)
	f.Add([]byte{40, 203, 40, 40, 40, 40, 40, 40}, uint8(1), false)                               // bound by −2^63
	f.Add([]byte{40, 251, 0, 0, 0, 0, 0, 0, 0, 128, 40, 40, 40, 40, 40, 40, 40}, uint8(1), false) // the same, written out
	f.Add([]byte{250, 0, 0, 0, 0, 0, 0, 0, 128}, uint8(4), true)
	f.Add([]byte{41, 203, 203, 203}, uint8(1), true)
	f.Fuzz(func(t *testing.T, raw []byte, calls uint8, queued bool) {
		batches := make([]store.Batch, 2)
		for i := range batches {
			b := &batches[i]
			b.Stack.Limits = []store.Limit{
				{Policy: "rate", Spec: policies.PerSecond(10).Spec()}, {Policy: "window", Spec: policies.Fixed(10, 1e9).Spec()},
			}[:2-i]
			b.Calls, b.Grants = make([]store.Call, calls%16+1), make([]store.Grant, calls%16+1)
			for j := range b.Calls {
				b.Calls[j].Cost = 1
				if queued {
					b.Calls[j].ID = int64(j) + 1
				}
			}
		}
		r, deferred := reply{values: ints(raw)}, false
		for i := range batches {
			deferred = r.grants(&batches[i], 1e15, i == 0, deferred)
		}
		if r.done() != nil {
			return
		}
		for i := range batches {
			b := &batches[i]
			for j := range b.Grants {
				g := &b.Grants[j]
				if g.Binds < store.BindsNothing || g.Binds >= len(b.Stack.Limits) {
					t.Fatalf("bound by limit %d of %d: %+v", g.Binds, len(b.Stack.Limits), g)
				}
				if g.At < 0 || g.At > maxRefused || g.Ahead < 0 || g.Slack < -time.Microsecond {
					t.Fatalf("absurd: %+v", g)
				}
				if g.OK && len(g.Charges) != len(b.Stack.Limits) {
					t.Fatalf("%d charges of %d limits", len(g.Charges), len(b.Stack.Limits))
				}
			}
		}
	})
}

// Any parsed state of a stack is within bounds.
func FuzzParseStatus(f *testing.F) {
	f.Add([]byte{41, 40, 40, 40, 50, 40, 40, 41})
	f.Add([]byte{203, 203, 203, 203, 203, 203, 203, 203})
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := reply{values: ints(raw)}
		st := r.status(1e15, 1)
		if r.done() != nil {
			return
		}
		l := &st.Limits[0]
		if l.Next < 0 || l.Next > maxInstant || l.Paused < 0 || l.Paused > maxInstant || l.Full < 0 || l.Full > maxInstant || l.Remaining < 0 || l.Backlog < 0 || l.Queued < 0 {
			t.Fatalf("absurd: %+v", st)
		}
	})
}
