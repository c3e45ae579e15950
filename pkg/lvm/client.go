package lvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

// Client works on volume groups through LVM. All methods may be called at any
// time from any goroutine; commands run one after the other, in the order in
// which they were asked for.
type Client struct {
	opts    Options
	udev    bool // udevd makes the device nodes
	devices devices

	// turns holds one element while somebody runs commands. What follows
	// belongs to whoever holds the turn.
	turns       chan struct{}
	runner      Runner
	discovery   Runner
	layout      *layout               // nil until the first discovery
	layoutFor   []VolumeGroupSelector // what layout was found for
	learned     map[string]string     // volume group name -> UUID it had when first seen
	readStarted time.Time             // when the last good report was begun
	backedUp    map[string]int64      // volume group UUID -> vg_seqno of its last backup

	state      atomic.Pointer[State]
	firstState chan struct{} // closed when state is first set
	changed    chan struct{} // a command changed something
	closing    chan struct{} // closed by Close
	stop       context.CancelFunc
	ended      chan struct{} // closed when keepFresh has returned

	// mu guards the rest, and the order in which states are published.
	mu          sync.Mutex
	wanted      []VolumeGroupSelector
	subscribers map[int]chan struct{}
	nextID      int
	lastReadErr error
	closed      bool
}

var errClosed = fmt.Errorf("%w: the client is closed", ErrUnavailable)

// NewClient checks opts, writes the private configuration and begins to read
// the first state in the background. It does not wait for LVM.
func NewClient(opts Options) (*Client, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	discoveryDir := filepath.Join(opts.RunDir, "discovery")
	if err := os.MkdirAll(discoveryDir, 0o700); err != nil {
		return nil, fmt.Errorf("LVM run folder: %w", err)
	}
	env := environment{lvmPath: opts.LVMPath, systemDir: opts.RunDir, outputDir: opts.RunDir, udev: opts.WaitForUdev}
	var runner Runner = newSession(env, opts.MaxOutputBytes, opts.SessionCommands)
	if opts.PlainExec {
		runner = newExec(env, opts.MaxOutputBytes)
	}
	env.systemDir, env.outputDir = discoveryDir, discoveryDir
	c := newClient(opts, runner, newExec(env, opts.MaxOutputBytes))
	if err := errors.Join(c.configure(nil), c.configureDiscovery(discoveryDir)); err != nil {
		return nil, fmt.Errorf("LVM configuration: %w", err)
	}
	c.start()
	return c, nil
}

func newClient(opts Options, runner, discovery Runner) *Client {
	return &Client{
		opts: opts, udev: opts.WaitForUdev, devices: devices{sysDir: opts.SysDir, stat: statBlockDevice},
		turns: make(chan struct{}, 1), runner: runner, discovery: discovery,
		learned: map[string]string{}, backedUp: map[string]int64{},
		firstState: make(chan struct{}), changed: make(chan struct{}, 1),
		closing: make(chan struct{}), ended: make(chan struct{}),
		wanted: slices.Clone(opts.VolumeGroups), subscribers: map[int]chan struct{}{},
	}
}

// start begins to keep the state fresh.
func (c *Client) start() {
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), klog.Background().WithName("lvm")))
	c.stop = stop
	go c.keepFresh(ctx)
}

// State returns the last known state without starting a process. It waits only
// for the very first report, as long as ctx allows.
func (c *Client) State(ctx context.Context) (*State, error) {
	if s := c.state.Load(); s != nil {
		return s, nil
	}
	select {
	case <-c.firstState:
		return c.state.Load(), nil
	case <-c.closing:
		return nil, errClosed
	case <-ctx.Done():
		return nil, errors.Join(notStarted(ctx), c.readError())
	}
}

func (c *Client) readError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastReadErr
}

// Refresh reads the state anew from LVM. Callers that wait at the same time
// share one report.
func (c *Client) Refresh(ctx context.Context) (*State, error) {
	asked := time.Now()
	t, err := c.take(ctx)
	if err != nil {
		return nil, err
	}
	defer t.release()
	if c.readStarted.After(asked) && slices.Equal(c.layoutFor, c.selectors()) {
		return c.state.Load(), nil
	}
	return c.read(ctx, t.waited)
}

func (c *Client) selectors() []VolumeGroupSelector {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

// SetVolumeGroups replaces the set of volume groups. The state follows soon;
// call Refresh to wait for it.
func (c *Client) SetVolumeGroups(groups []VolumeGroupSelector) error {
	if err := validSelectors(groups); err != nil {
		return err
	}
	c.mu.Lock()
	c.wanted = slices.Clone(groups)
	c.mu.Unlock()
	c.noteChange()
	return nil
}

// Subscribe returns a channel that has a value in it after each change of the
// state; changes that nobody looked at in between are one. cancel ends it.
func (c *Client) Subscribe() (changes <-chan struct{}, cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.nextID
	c.nextID++
	ch := make(chan struct{}, 1)
	c.subscribers[id] = ch
	return ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subscribers, id)
	}
}

// Healthy tells whether LVM answers: nil if a report was read within the last
// two refresh intervals, else it tries to read one now. It costs no process
// as long as the background refresh works.
func (c *Client) Healthy(ctx context.Context) error {
	s := c.state.Load()
	if s != nil && c.readError() == nil && time.Since(s.Taken) < 2*c.opts.RefreshInterval {
		return nil
	}
	_, err := c.Refresh(ctx)
	return err
}

// noteChange asks for a report in a little while.
func (c *Client) noteChange() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Close waits for the running command, however long it takes, and ends the lvm
// shell. Commands that wait for their turn, and later ones, fail with ErrUnavailable.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	close(c.closing)
	c.mu.Unlock()
	c.stop()
	c.turns <- struct{}{}
	<-c.ended
	return errors.Join(c.runner.Close(), c.discovery.Close())
}
