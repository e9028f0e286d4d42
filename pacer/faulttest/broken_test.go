package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/store"
)

// mover answers one grant in fifty with a slot that is an emission interval late.
type mover struct {
	store.Store
	grants int
}

func (m *mover) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	err := m.Store.Reserve(ctx, stack, calls, grants)
	for i := range grants {
		if grants[i].OK && len(stack.Limits) > 0 {
			if m.grants++; m.grants%50 == 0 {
				grants[i].At += store.Instant(stack.Limits[0].Spec.Interval)
			}
		}
	}
	return err
}

// loser loses one Cancel in ten.
type loser struct {
	store.Store
	cancels int
}

func (l *loser) Cancel(ctx context.Context, stack store.Stack, grants []store.Grant) error {
	if l.cancels++; l.cancels%10 == 0 {
		grants = nil
	}
	return l.Store.Cancel(ctx, stack, grants)
}

// overwriter makes two steps of each script, as a store would that reads its keys first and decides and writes after
// that: what others have written in between is overwritten. It is right as long as it is alone.
type overwriter struct{ rdb *redis.Client }

// ProcessHook implements [redis.Hook].
func (o overwriter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" && cmd.Name() != "eval" {
			return next(ctx, cmd)
		}
		args := cmd.Args() // the command, the script, the number of keys, the keys
		read, write := o.rdb.Pipeline(), o.rdb.TxPipeline()
		var then []func()
		keys, _ := strconv.Atoi(fmt.Sprint(args[2]))
		for _, key := range args[3 : 3+keys] {
			key := *key.(*string)
			dump, ttl := read.Dump(ctx, key), read.PTTL(ctx, key)
			then = append(then, func() {
				if write.Del(ctx, key); ttl.Val() > 0 {
					write.Restore(ctx, key, ttl.Val(), dump.Val())
				}
			})
		}
		if _, err := read.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		for _, f := range then {
			f()
		}
		if _, err := write.Exec(ctx); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

// DialHook implements [redis.Hook].
func (overwriter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (overwriter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A check that nothing fails checks nothing.
func TestABrokenStoreIsCaught(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	for name, breaks := range map[string]func(c *connection, spare *redis.Client){
		"MovesASlot":       func(c *connection, _ *redis.Client) { c.store = &mover{Store: c.store} },
		"LosesACancel":     func(c *connection, _ *redis.Client) { c.store = &loser{Store: c.store} },
		"OverwritesOthers": func(c *connection, spare *redis.Client) { c.rdb.AddHook(overwriter{spare}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := connect(t, addr)
			for i := range all {
				breaks(&all[i], newClient(t, addr))
			}
			const enough = 1000
			for seed := range uint64(enough) {
				h, err := record(t.Context(), all, operations, seed)
				require.NoError(t, err)
				if v := judge(h); v.CheckResult != porcupine.Ok {
					require.Equal(t, porcupine.Illegal, v.CheckResult)
					dir := t.TempDir()
					why, err := v.explain(dir, "picture")
					require.NoError(t, err)
					require.Contains(t, why, "the specification:")
					require.FileExists(t, filepath.Join(dir, "picture.html"))
					t.Logf("caught by history %d: %s", 1+seed, v.dispute())
					return
				}
			}
			t.Fatalf("not caught by %d histories", enough)
		})
	}
}

// The overwriter is caught because of what others do, not because it answers differently.
func TestAStoreThatOverwritesOthersIsRightAlone(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	alone := connect(t, addr)[:1]
	alone[0].rdb.AddHook(overwriter{newClient(t, addr)})
	histories := uint64(4)
	if long() {
		histories = 10
	}
	for seed := range histories {
		h, err := record(t.Context(), alone, clients*operations, seed)
		require.NoError(t, err)
		v := judge(h)
		require.Equal(t, porcupine.Ok, v.CheckResult, "%s", v.dispute())
	}
}
