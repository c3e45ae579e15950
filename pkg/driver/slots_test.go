package driver

import (
	"fmt"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

func TestGroupSlots(t *testing.T) {
	const unknown = -1
	for name, c := range map[string]struct {
		own, others int
		most, bytes int64
		want        int64
	}{
		"no limit is known":                       {own: 3, bytes: unknown, want: deviceNumbers},
		"an empty group with a limit":             {most: 10, bytes: unknown, want: 10},
		"our own volumes are part of it":          {own: 4, most: 10, bytes: unknown, want: 10},
		"those of others are not":                 {own: 4, others: 3, most: 10, bytes: unknown, want: 7},
		"full":                                    {own: 4, others: 6, most: 10, bytes: unknown, want: 4},
		"full of others' volumes":                 {others: 10, most: 10, bytes: unknown, want: 0},
		"the limit was lowered below what exists": {own: 4, others: 6, most: 5, bytes: unknown, want: 4},
		"metadata of the usual size, empty":       {bytes: 520_704, want: 496},
		"metadata of the usual size, half full":   {own: 250, bytes: 520_704 - 250*lvm.MetadataBytesPerVolume, want: 496},
		"volumes take less than was estimated":    {own: 10, bytes: 520_704 - 10*700, want: 496},
		"no room in the metadata":                 {own: 21, others: 5, bytes: 1023, want: 21},
		"room for less than a step":               {own: 1, bytes: 14 * lvm.MetadataBytesPerVolume, want: 1},
		"both limits: the count is less":          {own: 1, most: 20, bytes: 520_704, want: 20},
		"both limits: the metadata is less":       {own: 1, most: 200, bytes: 100 * lvm.MetadataBytesPerVolume, want: 96},
	} {
		t.Run(name, func(t *testing.T) {
			group := lvm.VolumeGroup{MaxLogicalVolumes: c.most, MetadataFreeBytes: c.bytes, LogicalVolumes: make([]lvm.LogicalVolume, c.own+c.others)}
			if got := groupSlots(group, int64(c.own)); got != c.want {
				t.Errorf("%d slots, want %d", got, c.want)
			}
		})
	}
}

func TestInventorySlots(t *testing.T) {
	const unknown = -1
	group := func(name string, most int64) lvm.VolumeGroup {
		return lvm.VolumeGroup{Name: name, MaxLogicalVolumes: most, MetadataFreeBytes: -1}
	}
	pools := func(groups ...string) []poolconfig.Pool {
		var out []poolconfig.Pool
		for i, name := range groups {
			out = append(out, poolconfig.Pool{Name: fmt.Sprint("p", i), VolumeGroup: name})
		}
		return out
	}
	state := &lvm.State{
		VolumeGroups: []lvm.VolumeGroup{group("vgA", 5), group("vgB", 7), group("vgBad", 1)},
		Problems:     map[string]error{"vgBad": lvm.ErrPhysicalVolumeMissing},
	}
	for name, c := range map[string]struct {
		pools []poolconfig.Pool
		want  int64
	}{
		"no pool":                          {nil, 0},
		"two pools in one group":           {pools("vgA", "vgA"), 5},
		"two groups":                       {pools("vgA", "vgB"), 12},
		"a group that is missing":          {pools("vgA", "vgGone"), unknown},
		"a group that cannot be read":      {pools("vgBad"), unknown},
		"more than there are device nodes": {pools("vgA", "vgMany"), deviceNumbers},
	} {
		t.Run(name, func(t *testing.T) {
			many := *state
			many.VolumeGroups = append(many.VolumeGroups[:3:3], group("vgMany", deviceNumbers))
			got, known := newInventory("d", &many).slots(c.pools)
			if known != (c.want != unknown) || known && got != c.want {
				t.Errorf("%d slots, known: %v; want %d", got, known, c.want)
			}
		})
	}
}
