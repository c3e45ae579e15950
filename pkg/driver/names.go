package driver

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/csi-local/csi-local/pkg/lvm"
)

const (
	// maxVolumeIDBytes is the limit of the CSI specification ("Size Limits").
	maxVolumeIDBytes = 128
	// maxPlainNameBytes bounds the logical volume names that are taken over as
	// they are, hyphens counted twice, as device-mapper doubles them.
	maxPlainNameBytes = 63
	// maxVolumeGroupBytes bounds the volume group's name in the same way, so
	// that the device-mapper name of every volume and of its hidden parts fits
	// the kernel's 127 bytes (DM_NAME_LEN less the final zero) with every name
	// that volumeNameFor gives: 53 + "-" + 63 + "_rimage_NN".
	maxVolumeGroupBytes = 53
	// hashedPrefix begins every name that was made from a hash. A plain name
	// that looks like one is hashed too, so the two kinds never meet.
	hashedPrefix = "csi_"
)

// volumeNameFor returns the name of the logical volume for a CSI name (or the
// handle of an inline volume). It is a pure function: the same CSI name gives
// the same name for ever and in every pool, different ones give different names.
//
// The CSI name itself is used where LVM takes it; LVM refuses many characters,
// reserved words and long names (lvm(8), "VALID NAMES"), and those are replaced
// by a hash. A name with control characters, which the CSI specification bans,
// or with more than 128 bytes is errInvalid.
func volumeNameFor(csiName string) (string, error) {
	if err := checkCSIName(csiName); err != nil {
		return "", err
	}
	if isPlainName(csiName) {
		return csiName, nil
	}
	sum := sha256.Sum256([]byte(csiName))
	return hashedPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:20])), nil
}

// checkCSIName holds a name to what the CSI specification says of CreateVolume's name field.
func checkCSIName(name string) error {
	switch {
	case name == "":
		return nameMissing.errorf()
	case len(name) > maxVolumeIDBytes:
		return nameTooLong.errorf(len(name), maxVolumeIDBytes)
	case !utf8.ValidString(name):
		return nameNotText.errorf(name)
	}
	if strings.ContainsFunc(name, isBanned) {
		return nameNotText.errorf(name)
	}
	return nil
}

// isBanned is the specification's list: control characters other than tab, line
// feed and carriage return.
func isBanned(r rune) bool {
	return unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r'
}

// isPlainName tells whether LVM takes name for a logical volume as it is.
func isPlainName(name string) bool {
	if name == "" || mappedLength(name) > maxPlainNameBytes || name[0] == '-' || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && !strings.ContainsRune("+_.-", rune(c)) {
			return false
		}
	}
	return !isReservedName(name) && !strings.HasPrefix(name, hashedPrefix)
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// isReservedName errs on the safe side: LVM's list grows with its versions
// ("_vdata", "_imeta", ...), so every name with an underscore followed by one
// of its stems is taken as reserved, whatever follows.
func isReservedName(name string) bool {
	for _, prefix := range []string{"snapshot", "pvmove"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	for _, part := range []string{
		"_cdata", "_cmeta", "_corig", "_cpool", "_cvol", "_wcorig", "_imeta", "_iorig", "_mimage", "_mlog",
		"_pmspare", "_rimage", "_rmeta", "_tdata", "_tmeta", "_vdata", "_vorigin", "_vpool", "_integrity",
	} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// mappedLength is the length that a name has inside a device-mapper name, in
// which every hyphen of it is doubled.
func mappedLength(name string) int { return len(name) + strings.Count(name, "-") }

// volumeID is the CSI volume ID of a logical volume: <volume group>/<logical volume>.
func volumeID(ref lvm.Ref) string { return ref.String() }

// parseVolumeID is the inverse of volumeID. An ID that this driver cannot have
// given out is an error that matches errNotFound, because no such volume exists.
// IDs without "/" are the handles of inline volumes; they are not parsed here.
func parseVolumeID(id string) (lvm.Ref, error) {
	vg, lv, ok := strings.Cut(id, "/")
	if !ok || vg == "" || lv == "" || strings.Contains(lv, "/") || len(id) > maxVolumeIDBytes {
		return lvm.Ref{}, fmt.Errorf("volume %q: %w: an ID of this driver has the form <volume group>/<logical volume>", id, errNotFound)
	}
	for _, part := range []string{vg, lv} {
		for i := range len(part) {
			if c := part[i]; !isAlphanumeric(c) && !strings.ContainsRune("+_.-", rune(c)) {
				return lvm.Ref{}, fmt.Errorf("volume %q: %w: LVM has no names with %q", id, errNotFound, c)
			}
		}
		if part[0] == '-' || part == "." || part == ".." {
			return lvm.Ref{}, fmt.Errorf("volume %q: %w: LVM has no name %q", id, errNotFound, part)
		}
	}
	return lvm.Ref{VolumeGroup: vg, Name: lv}, nil
}

// isInlineHandle tells whether an ID is that of an inline (ephemeral) volume:
// kubelet's handles have no "/", volume IDs of CreateVolume always have one.
func isInlineHandle(id string) bool { return id != "" && !strings.Contains(id, "/") }

// lockKey is the key under which operations on a volume exclude each other. It
// is the logical volume's name alone, because CreateVolume must exclude itself
// for one CSI name whatever pool the calls ask for.
func lockKey(ref lvm.Ref) string { return ref.Name }
