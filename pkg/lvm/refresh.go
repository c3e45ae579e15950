package lvm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

// read reads the whole state from LVM, rediscovering the devices if something
// does not add up. The caller holds the turn.
func (c *Client) read(ctx context.Context, waited time.Duration) (*State, error) {
	started := time.Now()
	wanted := c.selectors()
	fresh := false
	if c.layout == nil || !slices.Equal(c.layoutFor, wanted) {
		if err := c.rediscover(ctx, wanted); err != nil {
			return nil, c.readFailed(err)
		}
		fresh = true
	}
	for {
		groups, err := c.report(ctx, waited)
		if err != nil {
			return nil, c.readFailed(err)
		}
		state := assemble(groups, wanted, c.layout)
		if fresh || len(state.Problems) == 0 {
			c.readStarted = started
			return c.publish(state), nil
		}
		if err := c.rediscover(ctx, wanted); err != nil {
			return nil, c.readFailed(err)
		}
		fresh = true
	}
}

func (c *Client) readFailed(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastReadErr = err
	return err
}

// report runs one fullreport. Only a report that LVM itself calls complete is
// believed: from a failed one, nothing may be concluded to be absent.
func (c *Client) report(ctx context.Context, waited time.Duration) ([]VolumeGroup, error) {
	cmd := fullReportCommand()
	result, err := c.observe(ctx, c.runner, cmd, waited)
	if err != nil {
		return nil, err
	}
	if result.ExitCode != 0 {
		return nil, &Error{Kind: ErrReport, Op: cmd.Name, Object: "all", ExitCode: result.ExitCode, Messages: result.Failures()}
	}
	return parseFullReport(result.Report, c.opts.DevDir)
}

// assemble makes a state of the wanted groups and names what is wrong with each.
func assemble(groups []VolumeGroup, wanted []VolumeGroupSelector, l *layout) *State {
	state := &State{Taken: time.Now(), Problems: map[string]error{}}
	for _, want := range wanted {
		uuid, found := l.uuids[want.Name]
		if !found {
			state.Problems[want.Name] = l.problems[want.Name]
			continue
		}
		i := slices.IndexFunc(groups, func(g VolumeGroup) bool { return g.Name == want.Name && g.UUID == uuid })
		if i < 0 {
			state.Problems[want.Name] = groupError(ErrVolumeGroupMissing, want.Name, "wanted with UUID "+uuid)
			continue
		}
		state.VolumeGroups = append(state.VolumeGroups, groups[i])
		for _, d := range groups[i].PhysicalVolumes {
			if d.Missing {
				state.Problems[want.Name] = groupError(ErrPhysicalVolumeMissing, want.Name, "physical volume with UUID "+d.UUID)
			}
		}
	}
	return state
}

// rediscover finds the devices and, if they changed, gives the runner a
// configuration with just these. The caller holds the turn.
func (c *Client) rediscover(ctx context.Context, wanted []VolumeGroupSelector) error {
	l, err := c.discover(ctx, wanted)
	if err != nil {
		return err
	}
	for name, uuid := range l.uuids {
		c.learned[name] = uuid
	}
	if c.layout == nil || !slices.Equal(c.layout.devices, l.devices) {
		klog.FromContext(ctx).V(2).Info("LVM devices chosen", "devices", l.devices)
		if err := c.configure(l.devices); err != nil {
			return err
		}
	}
	c.layout, c.layoutFor = &l, wanted
	return nil
}

// configure writes the runner's lvm.conf and makes it count.
func (c *Client) configure(devices []string) error {
	config := configFile{
		devDir: c.opts.DevDir, lockDir: c.opts.LockDir, devices: devices, udev: c.udev, session: !c.opts.PlainExec,
	}
	if err := config.write(c.opts.RunDir); err != nil {
		return err
	}
	return c.runner.Reset()
}

// configureDiscovery writes the lvm.conf that looks at every disk.
func (c *Client) configureDiscovery(dir string) error {
	return configFile{devDir: c.opts.DevDir, lockDir: c.opts.LockDir, discovery: true, udev: c.udev}.write(dir)
}

func (c configFile) write(dir string) error {
	text, err := c.render()
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "lvm.conf"), []byte(text))
}

// writeFile replaces a file in one step.
func writeFile(path string, content []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, content, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// publish makes state the current one and tells those who listen.
func (c *Client) publish(state *State) *State {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastReadErr = nil
	old := c.state.Load()
	if old != nil {
		state.Generation = old.Generation
	}
	if old == nil || !sameFacts(old, state) {
		state.Generation++
		for _, s := range c.subscribers {
			select {
			case s <- struct{}{}:
			default: // it has not yet looked at the one before
			}
		}
	}
	c.state.Store(state)
	if old == nil {
		close(c.firstState)
	}
	return state
}

// sameFacts tells whether two states differ only in when they were taken.
func sameFacts(a, b *State) bool {
	x, y := *a, *b
	x.Taken, y.Taken = time.Time{}, time.Time{}
	x.Problems, y.Problems = nil, nil
	if len(a.Problems) != len(b.Problems) {
		return false
	}
	for name, problem := range a.Problems {
		if other := b.Problems[name]; other == nil || other.Error() != problem.Error() {
			return false
		}
	}
	return reflect.DeepEqual(x, y)
}

// keepFresh reads the state after changes, from time to time, and once at the start.
func (c *Client) keepFresh(ctx context.Context) {
	defer close(c.ended)
	slow := time.NewTicker(c.opts.RefreshInterval)
	defer slow.Stop()
	soon := time.NewTimer(0)
	defer soon.Stop()
	var firstChange time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
			// Wait for quiet, but not for ever.
			if firstChange.IsZero() {
				firstChange = time.Now()
			}
			delay := min(c.opts.RefreshDelay, maxDelays*c.opts.RefreshDelay-time.Since(firstChange))
			soon.Reset(max(0, delay))
			continue
		case <-soon.C:
		case <-slow.C:
		}
		firstChange = time.Time{}
		if err := c.confirm(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Reading the LVM state")
		}
	}
}

// maxDelays bounds, in units of RefreshDelay, how long a stream of changes can
// put off the report that confirms them.
const maxDelays = 10

// confirm reads the state and writes the backups that are due.
func (c *Client) confirm(ctx context.Context) error {
	t, err := c.take(ctx)
	if err != nil {
		return err
	}
	defer t.release()
	state, err := c.read(ctx, t.waited)
	if err != nil {
		return err
	}
	return errors.Join(c.backups(ctx, state)...)
}
