package lvm

import (
	"fmt"
	"math/bits"
	"strconv"
)

// The command lines of this package: pure functions, so that tests can read
// them. Every one answers LVM's questions in advance (-y) and none is a prompt.

const (
	minStripeSizeBytes = 4 << 10
	chunkStepBytes     = 64 << 10
	maxChunkBytes      = 1 << 30
	maxStripes         = 128
	maxRAID1Legs       = 10
)

// createCommand makes a volume with all its tags, inactive: creation then
// touches no device, and what the extents held before cannot get in the way.
// The activation skip flag (-ky) keeps the host's start-up and vgchange -ay
// from activating it, so that it is active only where we say so. (The newer
// --setautoactivation n is refused for raid and thin volumes by lvm 2.03.16.)
func createCommand(req CreateRequest, extentSizeBytes int64) (Command, error) {
	extents, err := requestExtents(req, extentSizeBytes)
	if err != nil {
		return Command{}, err
	}
	args := []string{"-y", "-an", "-ky", "-n", req.Name, "--type", req.SegmentType}
	if req.SegmentType == SegThin {
		args = append(args, "-V", strconv.FormatInt(extents*extentSizeBytes, 10)+"b", "--thinpool", req.ThinPool)
	} else {
		// -Zn -Wn: the caller clears what must be cleared, when it first uses the device.
		args = append(args, "-Zn", "-Wn", "-l", strconv.FormatInt(extents, 10))
	}
	switch req.SegmentType {
	case SegStriped:
		args = append(args, "-i", strconv.Itoa(req.Stripes))
		if req.StripeSizeBytes > 0 {
			args = append(args, "-I", strconv.FormatInt(req.StripeSizeBytes, 10)+"b")
		}
	case SegRAID1:
		// Cling keeps each copy on one disk, and LVM keeps the policy for lvextend.
		// By default it lets pieces of two copies share a disk when free space is
		// uneven, and the loss of that disk then loses the volume.
		args = append(args, "-m", strconv.Itoa(req.Stripes-1), "--alloc", "cling")
	}
	for _, tag := range req.Tags {
		args = append(args, "--addtag="+tag)
	}
	return Command{Name: "lvcreate", Args: append(args, req.VolumeGroup)}, nil
}

// requestExtents is the size of the volume in extents, as LVM shows it (data
// only for raid1).
func requestExtents(req CreateRequest, extentSizeBytes int64) (int64, error) {
	groups := int64(1)
	if req.SegmentType == SegStriped {
		groups = int64(req.Stripes)
	}
	return roundUpToExtents(req.SizeBytes, extentSizeBytes, groups)
}

// validCreate checks all that can be known without LVM.
func validCreate(req CreateRequest) error {
	if err := validNewRef(req.Ref); err != nil {
		return err
	}
	if err := validTags(req.Tags); err != nil {
		return err
	}
	if req.SizeBytes <= 0 {
		return fmt.Errorf("%w: a size of %d bytes", ErrInvalid, req.SizeBytes)
	}
	if err := validLayout(req); err != nil {
		return err
	}
	if req.SegmentType != SegThin && req.ThinPool != "" {
		return fmt.Errorf("%w: a %s volume has no thin pool", ErrInvalid, req.SegmentType)
	}
	if req.SegmentType != SegStriped && req.StripeSizeBytes != 0 {
		return fmt.Errorf("%w: a %s volume has no stripe size", ErrInvalid, req.SegmentType)
	}
	return nil
}

func validLayout(req CreateRequest) error {
	switch req.SegmentType {
	case SegLinear:
		if req.Stripes != 0 {
			return fmt.Errorf("%w: a linear volume has no stripes", ErrInvalid)
		}
	case SegStriped:
		if req.Stripes < 2 || req.Stripes > maxStripes {
			return fmt.Errorf("%w: %d stripes, 2 to %d are possible", ErrInvalid, req.Stripes, maxStripes)
		}
		size := req.StripeSizeBytes
		if size != 0 && (size < minStripeSizeBytes || bits.OnesCount64(uint64(size)) != 1) {
			return fmt.Errorf("%w: a stripe size of %d bytes, a power of two of at least %d is needed",
				ErrInvalid, size, minStripeSizeBytes)
		}
	case SegRAID1:
		if req.Stripes < 2 || req.Stripes > maxRAID1Legs {
			return fmt.Errorf("%w: %d legs, 2 to %d are possible", ErrInvalid, req.Stripes, maxRAID1Legs)
		}
	case SegThin:
		if req.Stripes != 0 {
			return fmt.Errorf("%w: a thin volume has no stripes", ErrInvalid)
		}
		return validName("thin pool", req.ThinPool)
	default:
		return fmt.Errorf("%w: cannot create a volume of type %q", ErrInvalid, req.SegmentType)
	}
	return nil
}

// createThinPoolCommand makes an active thin pool that zeroes new blocks.
func createThinPoolCommand(req ThinPoolRequest, extentSizeBytes int64) (Command, error) {
	extents, err := roundUpToExtents(req.SizeBytes, extentSizeBytes, 1)
	if err != nil {
		return Command{}, err
	}
	args := []string{"-y", "--type", SegThinPool, "-Zy", "-n", req.Name, "-l", strconv.FormatInt(extents, 10)}
	if req.ChunkSizeBytes > 0 {
		args = append(args, "-c", strconv.FormatInt(req.ChunkSizeBytes, 10)+"b")
	}
	for _, tag := range req.Tags {
		args = append(args, "--addtag="+tag)
	}
	return Command{Name: "lvcreate", Args: append(args, req.VolumeGroup)}, nil
}

func validThinPool(req ThinPoolRequest) error {
	if err := validNewRef(req.Ref); err != nil {
		return err
	}
	if c := req.ChunkSizeBytes; c != 0 && (c < chunkStepBytes || c > maxChunkBytes || c%chunkStepBytes != 0) {
		return fmt.Errorf("%w: a chunk size of %d bytes, multiples of %d up to %d are possible",
			ErrInvalid, c, chunkStepBytes, maxChunkBytes)
	}
	return validTags(req.Tags)
}

// removeCommand removes the volume only if nothing depends on it: -y would
// remove the snapshots of a thick origin, and the thin volumes of a pool, with it.
func removeCommand(lv LogicalVolume) Command {
	selection := guard(lv) + unlessOrigin
	if lv.SegmentType == SegThinPool {
		selection += " && thin_count=0" // no other volume has this field
	}
	return Command{Name: "lvremove", Args: []string{"-y", "-S", selection, lv.VolumeGroup}}
}

// unlessOrigin, appended to guard, leaves out a volume of which there is a thick snapshot.
const unlessOrigin = " && lv_role!=thickorigin"

// guard selects the volume (lvmreport(7), SELECTION), provided that it is still
// the same one and that LVM sees all disks of the volume group. LVM itself would
// carry on: if an administrator has just added a disk, which our filter does not
// let pass yet, lvremove and lvchange write new metadata without it, and if it
// holds volumes already, mark it as missing. LVM evaluates the selection under
// the volume group's lock.
func guard(lv LogicalVolume) string {
	selection := `vg_missing_pv_count=0 && lv_name="` + lv.Name + `"`
	if lv.UUID != "" { // not known between creation and the next report
		selection += ` && lv_uuid="` + lv.UUID + `"`
	}
	return selection
}

func extendCommand(ref Ref, extents int64) Command {
	return Command{Name: "lvextend", Args: []string{"-y", "-l", strconv.FormatInt(extents, 10), ref.String()}}
}

func activateCommand(ref Ref) Command {
	return Command{Name: "lvchange", Args: []string{"-y", "-ay", "-K", ref.String()}}
}

func deactivateCommand(ref Ref) Command {
	return Command{Name: "lvchange", Args: []string{"-y", "-an", ref.String()}}
}

func renameCommand(ref Ref, newName string) Command {
	return Command{Name: "lvrename", Args: []string{"-y", ref.VolumeGroup, ref.Name, newName}}
}

func changeTagsCommand(lv LogicalVolume, add, remove []string, butOrigins bool) Command {
	args, selection := []string{"-y"}, guard(lv)
	if butOrigins {
		selection += unlessOrigin
	}
	for _, tag := range remove {
		args = append(args, "--deltag="+tag)
	}
	for _, tag := range add {
		args = append(args, "--addtag="+tag)
	}
	return Command{Name: "lvchange", Args: append(args, "-S", selection, lv.VolumeGroup)}
}
