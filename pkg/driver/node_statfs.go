package driver

import (
	"context"
	"fmt"
	"sync"
)

// flights lets calls share one statfs per path. On a device that hangs the call
// can block for as long as the device does: however often somebody asks, one
// goroutine waits for each path, and everybody gets an answer in time. The zero
// value is ready.
type flights struct {
	mu      sync.Mutex
	running map[string]*flight // by path
}

type flight struct {
	done  chan struct{} // closed when the rest is set
	usage FilesystemUsage
	err   error
}

// statfs reads the usage of the file system at path, or joins who does already.
func (f *flights) statfs(ctx context.Context, mounter Mounter, path string) (FilesystemUsage, error) {
	flight := f.join(ctx, mounter, path)
	select {
	case <-flight.done:
		return flight.usage, flight.err
	case <-ctx.Done():
		return FilesystemUsage{}, fmt.Errorf("the file system at %s does not answer: %w", path, ctx.Err())
	}
}

func (f *flights) join(ctx context.Context, mounter Mounter, path string) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if running, ok := f.running[path]; ok {
		return running
	}
	if f.running == nil {
		f.running = map[string]*flight{}
	}
	made := &flight{done: make(chan struct{})}
	f.running[path] = made
	go func() {
		made.err = guard(context.WithoutCancel(ctx), func() (err error) {
			made.usage, err = mounter.Statfs(path)
			return err
		})
		f.mu.Lock()
		delete(f.running, path)
		f.mu.Unlock()
		close(made.done)
	}()
	return made
}
