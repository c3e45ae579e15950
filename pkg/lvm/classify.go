package lvm

import (
	"errors"
	"slices"
	"strings"
)

// failure is all that is known about a command that did not succeed.
type failure struct {
	ch     change
	cmd    Command
	before *State
	after  *State // nil if it could not be read
	result Result
	cause  error // set if LVM gave no outcome
}

// pattern ties words of LVM (LC_ALL=C) to what they mean.
type pattern struct {
	words string
	kind  error
}

// patterns are asked only where the states before and after do not tell. The
// words are those of lvm 2.03.16; classify_test.go has the sentences.
func patterns() []pattern {
	return []pattern{
		{"already exists in volume group", ErrExists},
		{"insufficient free space", ErrNoSpace},
		{"Insufficient suitable allocatable extents", ErrNoSpace},
		{"Insufficient free space", ErrNoSpace},
		{"exceeds maximum metadata size", ErrNoSpace},
		{"Maximum number of logical volumes", ErrNoSpace},
		{"must not exceed number of physical volumes", ErrNoSpace},
		{"Free space in pool", ErrThinPoolFull},
		{"Cannot create new thin volume, free space in thin pool", ErrThinPoolFull},
		{"Integrity check of metadata for pool", ErrThinPoolRepair},
		{"Manual repair required", ErrThinPoolRepair},
		{"transaction_id is ", ErrThinPoolRepair},
		{"unexpected transaction id", ErrThinPoolRepair},
		{"Cannot use thin pool", ErrThinPoolRepair},
		{"while PVs are missing", ErrPhysicalVolumeMissing},
		{"Refusing activation of partial LV", ErrPhysicalVolumeMissing},
		{"in use.", ErrInUse},
		{"is used by another device", ErrInUse},
		{"contains a filesystem in use", ErrInUse},
		{"Snapshot origin volumes can be resized only while inactive", ErrInUse},
		{"Failed to find logical volume", ErrNotFound},
	}
}

// kindOf returns the sentinel that err matches, ErrFailed if none.
func kindOf(err error) error {
	for _, kind := range []error{
		ErrNoSpace, ErrThinPoolFull, ErrThinPoolRepair, ErrThinDeviceMissing, ErrExists, ErrNotFound, ErrInUse, ErrVolumeGroupMissing,
		ErrVolumeGroupAmbiguous, ErrPhysicalVolumeMissing, ErrInvalid, ErrReport, ErrTimeout, ErrUnavailable,
	} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return ErrFailed
}

// errNothingDone: a guarded command found nothing to do, for a reason that the
// state does not show (any more).
var errNothingDone = errors.New("LVM did nothing")

// classify says what a failure means: first by what exists now, then by LVM's words.
func classify(f failure) error {
	if f.cause != nil {
		// lvm died or babbled. What it did is in the state, which is fresh now.
		return ErrUnavailable
	}
	if kind := classifyByState(f); kind != nil {
		return kind
	}
	if f.result.ExitCode == 0 {
		return errNothingDone
	}
	for _, p := range patterns() {
		if f.says(p.words) {
			return p.kind
		}
	}
	if f.result.ExitCode == invalidCommandLine {
		return ErrInvalid
	}
	if lv, _ := f.after.LogicalVolume(f.ch.ref); f.ch.is(opActivate) && lv.SegmentType == SegThin && f.says("reload ioctl", "No data available") {
		return ErrThinDeviceMissing // ENODATA of the kernel's thin target; of a disk, it means another thing
	}
	return ErrFailed
}

// says tells whether one of LVM's sentences has all these words.
func (f failure) says(words ...string) bool {
	return slices.ContainsFunc(f.result.Failures(), func(m string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(m, w) })
	})
}

// invalidCommandLine is lvm's exit code for arguments that it cannot parse (lvm(8)).
const invalidCommandLine = 3

// classifyByState returns nil if the states do not tell.
func classifyByState(f failure) error {
	ref := f.ch.ref
	vg, ok := f.after.VolumeGroup(ref.VolumeGroup)
	if !ok {
		return kindOf(f.after.Problems[ref.VolumeGroup])
	}
	lv, exists := vg.LogicalVolume(ref.Name)
	if f.ch.creates() {
		_, existed := f.before.LogicalVolume(ref)
		if exists && existed {
			return ErrExists
		}
		return createRefused(vg, f.ch.req)
	}
	if !exists {
		return ErrNotFound
	}
	if f.ch.guarded && errors.Is(f.after.Problems[ref.VolumeGroup], ErrPhysicalVolumeMissing) {
		return ErrPhysicalVolumeMissing
	}
	_, taken := f.after.LogicalVolume(f.ch.target)
	open := lv.Open && f.ch.is(opRemove, opDeactivate)
	depended := f.ch.is(opRemove) && (isThickOrigin(vg, lv.Name) || hasThinVolumes(vg, lv.Name)) ||
		f.ch.unlessOrigin && isThickOrigin(vg, lv.Name)
	switch {
	case f.ch.is(opRename) && taken:
		return ErrExists
	case open || depended:
		return ErrInUse
	}
	return nil
}

// createRefused tells what a request wants that the volume group does not have.
func createRefused(vg VolumeGroup, req CreateRequest) error {
	if pool, ok := vg.LogicalVolume(req.ThinPool); req.SegmentType == SegThin {
		switch {
		case !ok || pool.SegmentType != SegThinPool:
			return ErrNotFound
		case pool.NeedsCheck:
			return ErrThinPoolRepair
		case pool.DataPercent >= 100 || pool.MetadataPercent >= 100:
			return ErrThinPoolFull
		}
		return nil
	}
	if req.Stripes > len(vg.PhysicalVolumes) {
		return ErrNoSpace
	}
	extents, err := requestExtents(req, vg.ExtentSizeBytes)
	if err == nil && created(req, extents, vg.ExtentSizeBytes, "").FootprintExtents > vg.FreeExtents {
		return ErrNoSpace
	}
	return nil
}

func isThickOrigin(vg VolumeGroup, name string) bool {
	return slices.ContainsFunc(vg.LogicalVolumes, func(s LogicalVolume) bool {
		return s.SegmentType == SegSnapshot && s.Origin == name
	})
}

func hasThinVolumes(vg VolumeGroup, pool string) bool {
	return slices.ContainsFunc(vg.LogicalVolumes, func(v LogicalVolume) bool { return v.ThinPool == pool })
}
