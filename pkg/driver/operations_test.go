package driver

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOperations_DeadlineLeavesTheEffectRunningAndTheKeyTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOperations()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		ended := false
		err := o.run(ctx, "v", "creation", func(waitCtx, runCtx context.Context) error {
			reportProgress(runCtx, "37 % done")
			<-waitCtx.Done()
			time.Sleep(time.Minute)
			if runCtx.Err() != nil {
				t.Error("the running context ended with the caller's")
			}
			ended = true
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "37 % done") {
			t.Fatalf("run: %v, want DeadlineExceeded with the progress", err)
		}
		err = o.run(context.Background(), "v", "deletion", func(_, _ context.Context) error { return nil })
		if !errors.Is(err, errBusy) || !strings.Contains(err.Error(), "creation, 37 % done of v") {
			t.Fatalf("run while busy: %v, want errBusy that says with what", err)
		}
		if err := o.run(context.Background(), "w", "creation", func(_, _ context.Context) error { return nil }); err != nil {
			t.Fatalf("another key: %v", err)
		}
		if err := o.stop(context.Background()); err != nil || !ended {
			t.Fatalf("stop: %v, effect ended: %v", err, ended)
		}
		if err := o.run(context.Background(), "v", "creation", func(_, _ context.Context) error { return nil }); !errors.Is(err, errStopping) {
			t.Fatalf("run after stop: %v, want errStopping", err)
		}
	})
}

func TestOperations_PanicReleasesTheKey(t *testing.T) {
	o := newOperations()
	err := o.run(context.Background(), "v", "creation", func(_, _ context.Context) error { panic("bug") })
	if !errors.Is(err, errPanic) {
		t.Fatalf("run: %v, want errPanic", err)
	}
	if err := o.run(context.Background(), "v", "creation", func(_, _ context.Context) error { return nil }); err != nil {
		t.Fatalf("the key is still taken: %v", err)
	}
}

func TestOperations_StopEndsLongWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOperations()
		result := make(chan error, 1)
		go func() {
			result <- o.run(context.Background(), "v", "deletion", func(_, runCtx context.Context) error {
				ctx, cancel := o.untilStop(runCtx)
				defer cancel()
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		synctest.Wait()
		if err := o.stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := <-result; !errors.Is(err, errStopping) {
			t.Fatalf("long work: %v, want errStopping", err)
		}
	})
}

func TestOperations_StopGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOperations()
		hung := make(chan struct{})
		go o.run(context.Background(), "v", "creation", func(_, _ context.Context) error { <-hung; return nil }) //nolint:errcheck // not what is tested
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := o.stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("stop: %v, want DeadlineExceeded", err)
		}
		close(hung)
	})
}

func TestOperations_OneEffectPerKeyAtATime(t *testing.T) {
	o := newOperations()
	var inside, most atomic.Int64
	start := make(chan struct{})
	results := make(chan error)
	for range 100 {
		go func() {
			<-start
			results <- o.run(context.Background(), "v", "creation", func(_, _ context.Context) error {
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer inside.Add(-1)
				return nil
			})
		}()
	}
	close(start)
	done := 0
	for range 100 {
		switch err := <-results; {
		case err == nil:
			done++
		case !errors.Is(err, errBusy):
			t.Errorf("run: %v", err)
		}
	}
	if most.Load() != 1 || done == 0 {
		t.Errorf("%d effects at once, %d done; want 1 at once and some done", most.Load(), done)
	}
}

// Whoever gets an answer may call again at once.
func TestOperations_KeyIsFreeWithTheAnswer(t *testing.T) {
	o := newOperations()
	for i := range 20_000 {
		if err := o.run(context.Background(), "v", "creation", func(_, _ context.Context) error { return nil }); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}
