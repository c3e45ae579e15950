package lvmfake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// Options configure an [LVM].
type Options struct {
	// Machine is where it runs; a new one with DeviceDir and Groups if nil.
	Machine *Machine
	// DeviceDir and Groups are for the new machine.
	DeviceDir string
	Groups    []Group
	// VolumeGroups are those that the client may work on; all of Groups if nil.
	VolumeGroups []lvm.VolumeGroupSelector
	// Hook may be nil.
	Hook Hook
}

// LVM is one process' client of a [Machine]: what lvm.Client is on a real one. All
// methods may be called from any goroutine.
type LVM struct {
	machine *Machine

	mu          sync.Mutex // guards the rest; never held while a hook runs
	hook        Hook
	calls       []Call
	dead        error // set when closed or crashed
	wanted      []lvm.VolumeGroupSelector
	learned     map[string]string // volume group name -> UUID it had when first seen
	state       *lvm.State
	subscribers map[int]chan struct{}
	nextID      int
}

// New makes a client that has read its first state.
func New(o Options) (*LVM, error) {
	l := &LVM{machine: o.Machine, learned: map[string]string{}, subscribers: map[int]chan struct{}{}}
	if l.machine == nil {
		l.machine = NewMachine(o.DeviceDir)
		for _, g := range o.Groups {
			if _, err := l.machine.AddGroup(g); err != nil {
				return nil, err
			}
		}
	}
	l.wanted = slices.Clone(o.VolumeGroups)
	if o.VolumeGroups == nil {
		for _, g := range o.Groups {
			l.wanted = append(l.wanted, lvm.VolumeGroupSelector{Name: g.Name})
		}
	}
	l.read()
	l.hook = o.Hook
	return l, nil
}

// Machine is the machine that the client runs on.
func (l *LVM) Machine() *Machine { return l.machine }

// State returns the last known state; changes of others are in it after Refresh.
func (l *LVM) State(context.Context) (*lvm.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.dead, ErrCrash) {
		return nil, l.dead
	}
	return l.state, nil
}

// Refresh reads the state anew.
func (l *LVM) Refresh(ctx context.Context) (*lvm.State, error) {
	var state *lvm.State
	err := l.inTurn(ctx, Call{Op: OpRefresh}, func() error {
		state = l.read()
		return nil
	})
	return state, err
}

// SetVolumeGroups replaces the set of volume groups; call Refresh to see them.
func (l *LVM) SetVolumeGroups(groups []lvm.VolumeGroupSelector) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = slices.Clone(groups)
	return nil
}

// Subscribe returns a channel that has a value in it after each change of the state.
func (l *LVM) Subscribe() (changes <-chan struct{}, cancel func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.nextID
	l.nextID++
	ch := make(chan struct{}, 1)
	l.subscribers[id] = ch
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.subscribers, id)
	}
}

// Healthy tells whether the client works.
func (l *LVM) Healthy(context.Context) error { return l.alive() }

// Close waits for the running command; later ones fail with lvm.ErrUnavailable.
func (l *LVM) Close() error {
	l.machine.turn <- struct{}{}
	defer func() { <-l.machine.turn }()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead == nil {
		l.dead = fmt.Errorf("%w: the client is closed", lvm.ErrUnavailable)
	}
	return nil
}

// inTurn runs effect between its hooks while nobody else runs one.
func (l *LVM) inTurn(ctx context.Context, c Call, effect func() error) error {
	if err := l.alive(); err != nil {
		return l.fail(c, err)
	}
	if ctx.Err() != nil {
		return l.fail(c, fmt.Errorf("%w: %w", lvm.ErrTimeout, context.Cause(ctx)))
	}
	select {
	case l.machine.turn <- struct{}{}:
	case <-ctx.Done():
		return l.fail(c, fmt.Errorf("%w: %w", lvm.ErrTimeout, context.Cause(ctx)))
	}
	defer func() { <-l.machine.turn }()
	c.Phase = Before
	if err := l.call(ctx, c); err != nil {
		return l.fail(c, err)
	}
	if err := effect(); err != nil {
		l.read() // a failure is explained by what is so now
		return l.fail(c, err)
	}
	if c.Op != OpRefresh {
		l.read()
	}
	c.Phase = After
	return l.fail(c, l.call(ctx, c))
}

// fail makes err an *lvm.Error, if there is one.
func (l *LVM) fail(c Call, err error) error {
	var known *lvm.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	out := &lvm.Error{Kind: lvm.ErrFailed, Op: string(c.Op), Object: c.Ref.String(), Cause: err}
	for _, kind := range []error{
		lvm.ErrNoSpace, lvm.ErrThinPoolFull, lvm.ErrThinPoolRepair, lvm.ErrExists, lvm.ErrNotFound, lvm.ErrInUse,
		lvm.ErrVolumeGroupMissing, lvm.ErrVolumeGroupAmbiguous, lvm.ErrPhysicalVolumeMissing, lvm.ErrInvalid,
		lvm.ErrReport, lvm.ErrTimeout, lvm.ErrUnavailable,
	} {
		if errors.Is(err, kind) {
			out.Kind = kind
		}
	}
	return out
}

// read takes a new snapshot of the machine.
func (l *LVM) read() *lvm.State {
	l.machine.mu.Lock()
	defer l.machine.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	state := &lvm.State{Taken: time.Now(), Problems: map[string]error{}}
	for _, want := range l.wanted {
		g, err := l.find(want)
		if err != nil {
			state.Problems[want.Name] = err
			continue
		}
		vg := l.machine.report(g)
		state.VolumeGroups = append(state.VolumeGroups, vg)
		for _, d := range vg.PhysicalVolumes {
			if d.Missing {
				state.Problems[want.Name] = groupError(lvm.ErrPhysicalVolumeMissing, want.Name, "physical volume with UUID "+d.UUID)
			}
		}
	}
	l.publish(state)
	return state
}

func (l *LVM) publish(state *lvm.State) {
	old := l.state
	l.state = state
	if old != nil {
		state.Generation = old.Generation
		sameProblems := maps.EqualFunc(old.Problems, state.Problems, func(a, b error) bool { return a.Error() == b.Error() })
		if sameProblems && reflect.DeepEqual(old.VolumeGroups, state.VolumeGroups) {
			return
		}
	}
	state.Generation++
	for _, s := range l.subscribers {
		select {
		case s <- struct{}{}:
		default: // it has not yet looked at the one before
		}
	}
}

// find picks the group with the pinned or learned UUID, or the only one of its
// name. The caller holds both locks.
func (l *LVM) find(want lvm.VolumeGroupSelector) (*group, error) {
	var candidates []*group
	for _, g := range l.machine.groups {
		if g.name == want.Name {
			candidates = append(candidates, g)
		}
	}
	uuid := want.UUID
	if uuid == "" {
		uuid = l.learned[want.Name]
	}
	if uuid == "" && len(candidates) > 1 {
		return nil, groupError(lvm.ErrVolumeGroupAmbiguous, want.Name, fmt.Sprintf("%d groups have the name", len(candidates)))
	}
	for _, g := range candidates {
		if uuid == "" || g.uuid == uuid {
			l.learned[want.Name] = g.uuid
			return g, nil
		}
	}
	return nil, groupError(lvm.ErrVolumeGroupMissing, want.Name, "wanted with UUID "+uuid)
}

func groupError(kind error, name, detail string) *lvm.Error {
	return &lvm.Error{Kind: kind, Op: "vgs", Object: name, Messages: []string{detail}}
}
