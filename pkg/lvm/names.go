package lvm

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// maxNameBytes is LVM's limit for the names of volume groups and volumes.
	maxNameBytes = 127
	// maxTagBytes is LVM's limit for one tag.
	maxTagBytes = 1024
)

// reservedPrefixes and reservedParts are names that LVM keeps to itself (lvm(8), VALID NAMES).
func reservedPrefixes() []string { return []string{"snapshot", "pvmove"} }

func reservedParts() []string {
	return []string{
		"_cdata", "_cmeta", "_corig", "_cpool", "_cvol", "_imeta", "_iorig", "_mimage", "_mlog", "_pmspare",
		"_rimage", "_rmeta", "_tdata", "_tmeta", "_vdata", "_vorigin", "_wcorig",
	}
}

func validName(kind, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the %s has no name", ErrInvalid, kind)
	case len(name) > maxNameBytes:
		return fmt.Errorf("%w: the name of the %s has %d bytes, LVM takes %d", ErrInvalid, kind, len(name), maxNameBytes)
	case name == "." || name == ".." || name[0] == '-':
		return fmt.Errorf("%w: %q is no name of a %s for LVM", ErrInvalid, name, kind)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !isWord(r) && !strings.ContainsRune("+_.-", r) }); i >= 0 {
		return fmt.Errorf("%w: the name %q of the %s may have only a-z A-Z 0-9 + _ . -", ErrInvalid, name, kind)
	}
	return nil
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

func validRef(ref Ref) error {
	if err := validName("volume group", ref.VolumeGroup); err != nil {
		return err
	}
	return validName("logical volume", ref.Name)
}

// validNewRef is validRef for a name that is about to be given.
func validNewRef(ref Ref) error {
	if err := validRef(ref); err != nil {
		return err
	}
	for _, prefix := range reservedPrefixes() {
		if strings.HasPrefix(ref.Name, prefix) {
			return fmt.Errorf("%w: names that begin with %q are LVM's own: %q", ErrInvalid, prefix, ref.Name)
		}
	}
	for _, part := range reservedParts() {
		if strings.Contains(ref.Name, part) {
			return fmt.Errorf("%w: names with %q in them are LVM's own: %q", ErrInvalid, part, ref.Name)
		}
	}
	// The device-mapper name joins both with a hyphen and doubles those inside;
	// LVM appends up to 11 bytes for its hidden parts (for example "_rimage_0").
	if n := len(deviceMapperName(ref)); n > maxNameBytes-11 {
		return fmt.Errorf("%w: the device-mapper name of %s would have %d bytes, %d fit", ErrInvalid, ref, n, maxNameBytes-11)
	}
	return nil
}

// deviceMapperName is the name of the volume's device in the kernel.
func deviceMapperName(ref Ref) string {
	double := func(s string) string { return strings.ReplaceAll(s, "-", "--") }
	return double(ref.VolumeGroup) + "-" + double(ref.Name)
}

func validTags(tags []string) error {
	for _, tag := range tags {
		switch {
		case tag == "":
			return fmt.Errorf("%w: empty tag", ErrInvalid)
		case len(tag) > maxTagBytes:
			return fmt.Errorf("%w: a tag has %d bytes, LVM takes %d: the first of them %.40q", ErrInvalid, len(tag), maxTagBytes, tag)
		case tag[0] == '-':
			return fmt.Errorf("%w: a tag cannot begin with a hyphen: %q", ErrInvalid, tag)
		}
		if i := strings.IndexFunc(tag, func(r rune) bool { return !isWord(r) && !strings.ContainsRune("_+.-/=!:&#", r) }); i >= 0 {
			return fmt.Errorf("%w: the tag %q may have only a-z A-Z 0-9 _ + . - / = ! : & #", ErrInvalid, tag)
		}
	}
	sorted := slices.Sorted(slices.Values(tags))
	if len(slices.Compact(sorted)) != len(tags) {
		return fmt.Errorf("%w: a tag is given twice: %q", ErrInvalid, tags)
	}
	return nil
}
