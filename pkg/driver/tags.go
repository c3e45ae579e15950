package driver

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// tagPrefix begins every tag of this program; other tags of a volume are left alone.
const tagPrefix = "csi-local/"

// Keys of the tags; a tag is <tagPrefix><key>=<encoded value>.
const (
	tagDriver = "driver" // owner: the driver's name
	tagName   = "name"   // the CSI name
	tagPool   = "pool"   // the pool's name when the volume was made
	tagLayout = "layout" // the layout, see volume.Layout
	tagClass  = "class"  // fingerprint of the request, see volume.ClassHash
	tagWipe   = "wipe"   // what happens to the bytes on deletion
	tagState  = "state"  // see volumeState
	tagFS     = "fs"     // the file system that was made
	tagPod    = "pod"    // inline volumes: UID of the pod
	tagSeen   = "seen"   // not empty once the PersistentVolume was seen
	tagOrphan = "orphan" // since when the PersistentVolume is known to be missing (RFC 3339, UTC)
)

const hexDigits = "0123456789ABCDEF"

// encodeTag makes one tag. Bytes that LVM refuses in tags (lvm(8), "TAGS"), and
// "#" itself, become #XX with two hexadecimal digits, so that any value passes
// and comes back unchanged.
func encodeTag(key, value string) string {
	var b strings.Builder
	b.WriteString(tagPrefix + key + "=")
	for i := range len(value) {
		c := value[i]
		if isAlphanumeric(c) || strings.ContainsRune("_+.-/=!:&", rune(c)) {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'#', hexDigits[c>>4], hexDigits[c&15]})
	}
	return b.String()
}

// decodeTag is the inverse of encodeTag. ok is false for a tag of somebody
// else; a tag with our prefix that encodeTag cannot have made is an error.
func decodeTag(tag string) (key, value string, ok bool, err error) {
	rest, ours := strings.CutPrefix(tag, tagPrefix)
	if !ours {
		return "", "", false, nil
	}
	key, encoded, found := strings.Cut(rest, "=")
	if !found || key == "" {
		return "", "", false, fmt.Errorf("tag %q has no value: %w", tag, errTags)
	}
	var b strings.Builder
	for i := 0; i < len(encoded); i++ {
		if encoded[i] != '#' {
			b.WriteByte(encoded[i])
			continue
		}
		if i+2 >= len(encoded) {
			return "", "", false, fmt.Errorf("tag %q ends inside #XX: %w", tag, errTags)
		}
		high, low := strings.IndexByte(hexDigits, encoded[i+1]), strings.IndexByte(hexDigits, encoded[i+2])
		if high < 0 || low < 0 {
			return "", "", false, fmt.Errorf("tag %q has a bad #XX: %w", tag, errTags)
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return key, b.String(), true, nil
}

// encodeTags returns the tags that say of v what the volume's LVM record does
// not say by itself, sorted.
func encodeTags(driverName string, v volume) []string {
	values := map[string]string{
		tagDriver: driverName,
		tagName:   v.CSIName,
		tagPool:   v.Pool,
		tagLayout: v.Layout,
		tagClass:  v.ClassHash,
		tagWipe:   v.Wipe,
		tagState:  string(v.State),
		tagFS:     v.FSType,
		tagPod:    v.EphemeralPodUID,
		tagSeen:   v.seenTag(),
		tagOrphan: v.orphanTag(),
	}
	var tags []string
	for key, value := range values {
		if value != "" {
			tags = append(tags, encodeTag(key, value))
		}
	}
	slices.Sort(tags)
	return tags
}

// decodeVolume reads the tags of a logical volume. ours is false, without an
// error, for volumes of other drivers and of nobody. A volume that carries our
// driver tag, but not what every volume of ours has, is an error that matches
// errTags: it is left alone and reported, never guessed at.
func decodeVolume(driverName string, lv lvm.LogicalVolume) (v volume, ours bool, err error) {
	owner := encodeTag(tagDriver, driverName)
	if !slices.Contains(lv.Tags, owner) {
		return volume{}, false, nil
	}
	values := map[string]string{}
	for _, tag := range lv.Tags {
		key, value, ok, err := decodeTag(tag)
		if err != nil {
			return volume{}, true, fmt.Errorf("volume %s: %w", lv.Ref(), err)
		}
		if !ok {
			continue
		}
		if other, twice := values[key]; twice {
			return volume{}, true, fmt.Errorf("volume %s: tag %s is both %q and %q: %w", lv.Ref(), key, other, value, errTags)
		}
		values[key] = value
	}
	v = volume{
		LogicalVolume:   lv,
		CSIName:         values[tagName],
		Pool:            values[tagPool],
		Layout:          values[tagLayout],
		ClassHash:       values[tagClass],
		Wipe:            values[tagWipe],
		State:           volumeState(values[tagState]),
		FSType:          values[tagFS],
		EphemeralPodUID: values[tagPod],
	}
	v.Seen = values[tagSeen] != ""
	if since := values[tagOrphan]; since != "" {
		if v.Orphan, err = time.Parse(time.RFC3339, since); err != nil {
			return volume{}, true, fmt.Errorf("volume %s: tag %s: %w: %w", lv.Ref(), tagOrphan, err, errTags)
		}
	}
	if v.CSIName == "" || v.Pool == "" {
		return volume{}, true, fmt.Errorf("volume %s: tag %s or %s is missing: %w", lv.Ref(), tagName, tagPool, errTags)
	}
	switch v.State {
	case stateNew, stateUsed, stateDeleting:
		return v, true, nil
	default:
		return volume{}, true, fmt.Errorf("volume %s: tag %s is %q: %w", lv.Ref(), tagState, v.State, errTags)
	}
}
