package lvm

import (
	"errors"
	"slices"
	"strings"
)

// failure is all that is known about a command that did not succeed.
type failure struct {
	cmd    Command
	ref    Ref
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

// patterns are asked only where the states before and after do not tell. Each
// is held to real LVM by the contract suite.
func patterns() []pattern {
	return []pattern{
		{"already exists in volume group", ErrExists},
		{"insufficient free space", ErrNoSpace},
		{"Insufficient suitable allocatable extents", ErrNoSpace},
		{"Insufficient free space", ErrNoSpace},
		{"in use.", ErrInUse},
		{"is used by another device", ErrInUse},
		{"contains a filesystem in use", ErrInUse},
		{"Free space in pool", ErrThinPoolFull},
		{"Cannot create new thin volume, free space in thin pool", ErrThinPoolFull},
		{"needs check", ErrThinPoolRepair},
		{"needs_check", ErrThinPoolRepair},
		{"Manual repair required", ErrThinPoolRepair},
		{"Check of pool", ErrThinPoolRepair},
		{"while PVs are missing", ErrPhysicalVolumeMissing},
		{"Refusing activation of partial LV", ErrPhysicalVolumeMissing},
		{"Failed to find logical volume", ErrNotFound},
	}
}

// kindOf returns the sentinel that err matches, ErrFailed if none.
func kindOf(err error) error {
	for _, kind := range []error{
		ErrNoSpace, ErrThinPoolFull, ErrThinPoolRepair, ErrExists, ErrNotFound, ErrInUse, ErrVolumeGroupMissing,
		ErrVolumeGroupAmbiguous, ErrPhysicalVolumeMissing, ErrInvalid, ErrReport, ErrTimeout, ErrUnavailable,
	} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return ErrFailed
}

// classify says what a failure means: first by what exists now, then by LVM's words.
func classify(f failure) error {
	if f.cause != nil {
		// lvm died or babbled. What it did is in the state, which is fresh now.
		return ErrUnavailable
	}
	if f.after != nil {
		if kind := classifyByState(f); kind != nil {
			return kind
		}
	}
	for _, p := range patterns() {
		if slices.ContainsFunc(f.result.Failures(), func(m string) bool { return strings.Contains(m, p.words) }) {
			return p.kind
		}
	}
	if f.result.ExitCode == 3 {
		return ErrInvalid
	}
	return ErrFailed
}

// classifyByState returns nil if the states do not tell.
func classifyByState(f failure) error {
	vg, ok := f.after.VolumeGroup(f.ref.VolumeGroup)
	if !ok {
		return kindOf(f.after.Problems[f.ref.VolumeGroup])
	}
	lv, exists := vg.LogicalVolume(f.ref.Name)
	creating := f.cmd.Name == "lvcreate"
	if _, existed := f.before.LogicalVolume(f.ref); creating && exists && existed {
		return ErrExists
	}
	if !creating && !exists {
		return ErrNotFound
	}
	if f.cmd.Name == "lvremove" || slices.Contains(f.cmd.Args, "-an") && !creating {
		if lv.Open || slices.ContainsFunc(vg.LogicalVolumes, func(s LogicalVolume) bool {
			return s.SegmentType == SegSnapshot && s.Origin == lv.Name
		}) {
			return ErrInUse
		}
	}
	return nil
}
