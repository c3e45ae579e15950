package lvm

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
)

// Create makes a volume in one command, tags included, and leaves it inactive.
// The error matches ErrExists if the name is taken, whatever has it.
func (c *Client) Create(ctx context.Context, req CreateRequest) (LogicalVolume, error) {
	var lv LogicalVolume
	ch := change{op: opCreate, ref: req.Ref, req: req}
	if err := validCreate(req); err != nil {
		return lv, ch.fail(err)
	}
	ch.build = func(_ *State, vg VolumeGroup) (Command, error) {
		extents, err := requestExtents(req, vg.ExtentSizeBytes)
		if err != nil {
			return Command{}, err
		}
		lv = created(req, extents, vg.ExtentSizeBytes, c.path(req.Ref))
		return createCommand(req, vg.ExtentSizeBytes)
	}
	ch.patch = func(before *State) *State { return withVolume(before, lv) }
	ch.done = func(before, after *State, died bool) bool {
		_, was := before.LogicalVolume(req.Ref)
		now, is := after.LogicalVolume(req.Ref)
		if !died || was || !is || now.SegmentType != lv.SegmentType || !slices.Equal(now.Tags, lv.Tags) {
			return false
		}
		lv = now
		return true
	}
	if err := c.apply(ctx, ch); err != nil {
		return LogicalVolume{}, err
	}
	return lv, nil
}

// CreateThinPool makes an active thin pool that zeroes new blocks; for tools and tests.
func (c *Client) CreateThinPool(ctx context.Context, req ThinPoolRequest) (LogicalVolume, error) {
	ch := change{op: opCreatePool, ref: req.Ref}
	if err := validThinPool(req); err != nil {
		return LogicalVolume{}, ch.fail(err)
	}
	ch.build = func(_ *State, vg VolumeGroup) (Command, error) {
		return createThinPoolCommand(req, vg.ExtentSizeBytes)
	}
	ch.patch = func(before *State) *State { return withGroup(before, req.VolumeGroup, func(*VolumeGroup) {}) }
	if err := c.apply(ctx, ch); err != nil {
		return LogicalVolume{}, err
	}
	// Size of the metadata, spare and device numbers are LVM's choice.
	return c.reported(ctx, ch)
}

// Remove deactivates and removes a volume. The error matches ErrNotFound if it
// is not there, ErrInUse if it is open or the origin of a thick snapshot.
func (c *Client) Remove(ctx context.Context, ref Ref) error {
	ch := change{op: opRemove, guarded: true, ref: ref}
	if err := validRef(ref); err != nil {
		return ch.fail(err)
	}
	same := sameVolume(ref)
	ch.build = func(_ *State, vg VolumeGroup) (Command, error) {
		lv, err := same(vg)
		return removeCommand(lv), err
	}
	ch.patch = func(before *State) *State { return withoutVolume(before, ref) }
	ch.done = func(before, after *State, died bool) bool {
		_, was := before.LogicalVolume(ref)
		_, is := after.LogicalVolume(ref)
		return died && was && !is
	}
	return c.apply(ctx, ch)
}

// Extend makes a volume at least sizeBytes big (rounded up to extents, and to
// stripes); one that is big enough is left alone.
func (c *Client) Extend(ctx context.Context, ref Ref, sizeBytes int64) (LogicalVolume, error) {
	var lv LogicalVolume
	ch := change{op: opExtend, ref: ref}
	if err := validRef(ref); err != nil {
		return lv, ch.fail(err)
	}
	ch.build = func(_ *State, vg VolumeGroup) (Command, error) {
		old, _ := vg.LogicalVolume(ref.Name)
		groups := int64(1)
		if old.SegmentType == SegStriped {
			groups = int64(max(1, old.Stripes))
		}
		extents, err := roundUpToExtents(sizeBytes, vg.ExtentSizeBytes, groups)
		if err != nil {
			return Command{}, err
		}
		if old.SizeBytes >= sizeBytes {
			lv = old
			return Command{}, nil
		}
		lv = extended(old, extents, vg.ExtentSizeBytes)
		return extendCommand(ref, extents), nil
	}
	ch.patch = func(before *State) *State { return withVolume(before, lv) }
	ch.done = func(_, after *State, _ bool) bool {
		now, ok := after.LogicalVolume(ref)
		lv = now
		return ok && now.SizeBytes >= sizeBytes
	}
	if err := c.apply(ctx, ch); err != nil {
		return LogicalVolume{}, err
	}
	return lv, nil
}

// Activate makes the device node appear and returns the volume with its device
// number. If the right node is there already, no command is run. The error
// matches ErrUnavailable if the volume is active and its node does not appear.
// A thin pool has a node only while it has no volumes, so nobody waits for that;
// it is returned as LVM reports it afterwards, with how full it is.
func (c *Client) Activate(ctx context.Context, ref Ref) (LogicalVolume, error) {
	ch := change{op: opActivate, ref: ref}
	if err := validRef(ref); err != nil {
		return LogicalVolume{}, ch.fail(err)
	}
	if lv, ok := c.activeNow(ref); ok {
		return lv, nil
	}
	var number deviceNumber
	ch.build = func(*State, VolumeGroup) (Command, error) { return activateCommand(ref), nil }
	ch.settle = func(vg VolumeGroup) error {
		lv, _ := vg.LogicalVolume(ref.Name)
		if lv.SegmentType == SegThinPool {
			return nil
		}
		var err error
		number, err = c.awaitDevice(ctx, ref, vg.UUID, lv.UUID)
		return err
	}
	var lv LogicalVolume
	ch.patch = func(before *State) *State {
		lv, _ = before.LogicalVolume(ref)
		if lv.SegmentType == SegThinPool {
			return before
		}
		lv.Active, lv.Major, lv.Minor = true, number.major, number.minor
		return withVolume(before, lv)
	}
	if err := c.apply(ctx, ch); err != nil {
		return LogicalVolume{}, err
	}
	if lv.SegmentType == SegThinPool {
		return c.reported(ctx, ch)
	}
	return lv, nil
}

// reported returns the change's volume from a fresh report, for what only LVM knows.
func (c *Client) reported(ctx context.Context, ch change) (LogicalVolume, error) {
	state, err := c.Refresh(ctx)
	if err != nil {
		return LogicalVolume{}, ch.fail(err)
	}
	lv, ok := state.LogicalVolume(ch.ref)
	if !ok {
		return lv, &Error{Kind: ErrNotFound, Op: string(ch.op), Object: ch.ref.String()}
	}
	return lv, nil
}

// activeNow tells, without a process, whether the volume's device is there.
func (c *Client) activeNow(ref Ref) (LogicalVolume, bool) {
	state := c.state.Load()
	if state == nil {
		return LogicalVolume{}, false
	}
	vg, _ := state.VolumeGroup(ref.VolumeGroup)
	lv, ok := vg.LogicalVolume(ref.Name)
	if !ok || !lv.Active {
		return LogicalVolume{}, false
	}
	if lv.SegmentType == SegThinPool {
		return lv, true
	}
	number, err := c.devices.find(lv.Path, ref, vg.UUID, lv.UUID)
	lv.Major, lv.Minor = number.major, number.minor
	return lv, err == nil
}

// Deactivate makes the device go away; the error matches ErrInUse if it is open.
func (c *Client) Deactivate(ctx context.Context, ref Ref) error {
	ch := change{op: opDeactivate, ref: ref}
	if err := validRef(ref); err != nil {
		return ch.fail(err)
	}
	ch.build = func(*State, VolumeGroup) (Command, error) { return deactivateCommand(ref), nil }
	ch.patch = func(before *State) *State {
		lv, _ := before.LogicalVolume(ref)
		lv.Active, lv.Open, lv.Major, lv.Minor = false, false, -1, -1
		lv.DataPercent, lv.MetadataPercent = -1, -1
		return withVolume(before, lv)
	}
	return c.apply(ctx, ch)
}

// Rename gives a volume a new name in the same volume group. The error matches
// ErrExists if that name is taken.
func (c *Client) Rename(ctx context.Context, ref Ref, newName string) error {
	target := Ref{VolumeGroup: ref.VolumeGroup, Name: newName}
	ch := change{op: opRename, ref: ref, target: target}
	for _, err := range []error{validRef(ref), validNewRef(target)} {
		if err != nil {
			return ch.fail(err)
		}
	}
	ch.build = func(*State, VolumeGroup) (Command, error) { return renameCommand(ref, newName), nil }
	ch.patch = func(before *State) *State {
		lv, _ := before.LogicalVolume(ref)
		lv.Name, lv.Path = newName, c.path(target)
		return withVolume(withoutVolume(before, ref), lv)
	}
	return c.apply(ctx, ch)
}

// ChangeTags adds and removes tags in one command; adding a tag that is there
// and removing one that is not are no errors. No tag may be in both.
func (c *Client) ChangeTags(ctx context.Context, ref Ref, add, remove []string) error {
	return c.changeTags(ctx, change{op: opTags, ref: ref, guarded: true}, add, remove)
}

// ChangeTagsUnlessOrigin is ChangeTags for a volume of which there is no thick
// snapshot, as LVM finds under its lock. Otherwise nothing is changed, and the
// error matches ErrInUse.
func (c *Client) ChangeTagsUnlessOrigin(ctx context.Context, ref Ref, add, remove []string) error {
	return c.changeTags(ctx, change{op: opTags, ref: ref, guarded: true, unlessOrigin: true}, add, remove)
}

func (c *Client) changeTags(ctx context.Context, ch change, add, remove []string) error {
	ref := ch.ref
	if err := validRef(ref); err != nil {
		return ch.fail(err)
	}
	if err := validTags(slices.Concat(add, remove)); err != nil {
		return ch.fail(err)
	}
	if len(add)+len(remove) == 0 {
		return ch.fail(fmt.Errorf("%w: no tags to change", ErrInvalid))
	}
	same := sameVolume(ref)
	ch.build = func(_ *State, vg VolumeGroup) (Command, error) {
		lv, err := same(vg)
		return changeTagsCommand(lv, add, remove, ch.unlessOrigin), err
	}
	ch.patch = func(before *State) *State {
		lv, _ := before.LogicalVolume(ref)
		return withVolume(before, retagged(lv, add, remove))
	}
	ch.done = func(_, after *State, _ bool) bool {
		vg, _ := after.VolumeGroup(ref.VolumeGroup)
		lv, ok := vg.LogicalVolume(ref.Name)
		refused := ch.unlessOrigin && isThickOrigin(vg, ref.Name)
		return ok && !refused && slices.Equal(lv.Tags, retagged(lv, add, remove).Tags)
	}
	return c.apply(ctx, ch)
}

// sameVolume returns a function that finds the volume and insists, when asked
// again, that it is the one it found first. A name that meanwhile belongs to
// another volume is not what the caller spoke of.
func sameVolume(ref Ref) func(VolumeGroup) (LogicalVolume, error) {
	uuid := ""
	return func(vg VolumeGroup) (LogicalVolume, error) {
		lv, _ := vg.LogicalVolume(ref.Name)
		if uuid != "" && lv.UUID != uuid {
			return lv, &Error{Kind: ErrNotFound, Op: "lvs", Object: ref.String(),
				Messages: []string{"the volume of UUID " + uuid + " was replaced by another one of the same name"}}
		}
		uuid = lv.UUID
		return lv, nil
	}
}

// path is the volume's device node.
func (c *Client) path(ref Ref) string { return filepath.Join(c.opts.DevDir, ref.VolumeGroup, ref.Name) }
