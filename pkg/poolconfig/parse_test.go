package poolconfig

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-local/csi-local/pkg/capacity"
)

func mustParse(t *testing.T, text string) Config {
	t.Helper()
	config, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestParse_Defaults(t *testing.T) {
	config := mustParse(t, `
pools:
- {name: thin, volumeGroup: vg, type: thin, thinPool: tp}
- {name: thick, volumeGroup: vg, type: thick}
`)
	want := []Pool{
		{Name: "thick", VolumeGroup: "vg", Type: capacity.PoolThick, OverprovisionRatio: 1,
			DefaultFilesystem: capacity.FilesystemExt4, Wipe: capacity.WipeZero},
		{Name: "thin", VolumeGroup: "vg", Type: capacity.PoolThin, ThinPool: "tp", OverprovisionRatio: 1, DataWatermarkPercent: 90,
			MetadataWatermarkPercent: 90, DefaultFilesystem: capacity.FilesystemExt4, Wipe: capacity.WipeZero},
	}
	if diff := cmp.Diff(want, config.ForNode("any")); diff != "" {
		t.Error(diff)
	}
}

func TestParse_EveryField(t *testing.T) {
	config := mustParse(t, `
pools:
- name: a
  volumeGroup: vg-a
  volumeGroupUUID: Zt3Tbd-0XQ3-Hn2Y-7gVa-cAeM-kbUd-3xqIhn
  type: thin
  thinPool: tp-a
  reserve: 1.5Gi
  overprovisionRatio: 2.125
  dataWatermarkPercent: 1
  metadataWatermarkPercent: 100
  defaultFilesystem: btrfs
  wipe: unsafe-none
  maxInlineSize: 1073741824
`)
	want := []Pool{{Name: "a", VolumeGroup: "vg-a", VolumeGroupUUID: "Zt3Tbd-0XQ3-Hn2Y-7gVa-cAeM-kbUd-3xqIhn", Type: capacity.PoolThin,
		ThinPool: "tp-a", ReserveBytes: 3 << 29, OverprovisionRatio: 2.125, DataWatermarkPercent: 1, MetadataWatermarkPercent: 100,
		DefaultFilesystem: capacity.FilesystemBtrfs, Wipe: capacity.WipeUnsafeNone, MaxInlineSizeBytes: 1 << 30}}
	if diff := cmp.Diff(want, config.ForNode("any")); diff != "" {
		t.Error(diff)
	}
}

// What is valid and might be taken for a problem.
func TestParse_Accepts(t *testing.T) {
	for name, text := range map[string]string{
		"no pools":                "pools: []\n",
		"JSON":                    `{"pools": [{"name": "a", "volumeGroup": "vg", "type": "thick", "reserve": "1Gi"}]}`,
		"quoted numbers as names": "pools: [{name: \"7\", volumeGroup: \"8\", type: thick}]\n",
		"document marks":          "---\npools: []\n...\n",
		"byte order mark":         "\ufeffpools: []\n",
		"CRLF":                    "pools:\r\n- name: a\r\n  volumeGroup: vg\r\n  type: thick\r\n",
		"longest volume group":    "pools: [{name: a, volumeGroup: " + strings.Repeat("v", 64) + ", type: thick}]\n",
		"thick beside thin":       "pools: [{name: a, volumeGroup: vg, type: thick}, {name: b, volumeGroup: vg, type: thin, thinPool: t}]\n",
		"two thin pools":          "pools: [{name: a, volumeGroup: vg, type: thin, thinPool: s}, {name: b, volumeGroup: vg, type: thin, thinPool: t}]\n",
		"exponent":                "pools: [{name: a, volumeGroup: vg, type: thick, reserve: 1e9}]\n",
		"node with the same type": "pools: [{name: a, volumeGroup: vg, type: thick}]\nnodes: {n: {pools: [{name: a, type: thick}]}}\n",
		"empty node":              "pools: []\nnodes: {n: {}}\n",
	} {
		t.Run(name, func(t *testing.T) { mustParse(t, text) })
	}
}

func TestConfig_ForNode(t *testing.T) {
	config := mustParse(t, `
pools:
- {name: a, volumeGroup: vg-a, volumeGroupUUID: Zt3Tbd-0XQ3-Hn2Y-7gVa-cAeM-kbUd-3xqIhn, type: thick, reserve: 1Gi, wipe: discard}
- {name: b, volumeGroup: vg-b, type: thick}
nodes:
  swapped:
    pools:
    - {name: b, volumeGroup: vg-a}
    - {name: a, volumeGroup: vg-b}
  fewer: {pools: [{name: a, absent: true}]}
  more:
    pools:
    - {name: c, volumeGroup: vg-c, type: thick}
    - {name: a, reserve: 0}
  none: {pools: [{name: a, absent: true}, {name: b, absent: true}]}
`)
	thick := func(name, vg string, change func(*Pool)) Pool {
		p := Pool{Name: name, VolumeGroup: vg, Type: capacity.PoolThick, OverprovisionRatio: 1, DefaultFilesystem: "ext4", Wipe: "zero"}
		if change != nil {
			change(&p)
		}
		return p
	}
	const uuid = "Zt3Tbd-0XQ3-Hn2Y-7gVa-cAeM-kbUd-3xqIhn"
	a := thick("a", "vg-a", func(p *Pool) { p.VolumeGroupUUID, p.ReserveBytes, p.Wipe = uuid, 1<<30, capacity.WipeDiscard })
	b := thick("b", "vg-b", nil)
	for node, want := range map[string][]Pool{
		"unknown": {a, b},
		"":        {a, b},
		// The pin belongs to vg-a, so it does not follow the pool to vg-b.
		"swapped": {thick("a", "vg-b", func(p *Pool) { p.ReserveBytes, p.Wipe = 1<<30, capacity.WipeDiscard }), thick("b", "vg-a", nil)},
		"fewer":   {b},
		"more": {thick("a", "vg-a", func(p *Pool) { p.VolumeGroupUUID, p.Wipe = uuid, capacity.WipeDiscard }), b,
			thick("c", "vg-c", nil)},
		"none": {},
	} {
		got := config.ForNode(node)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("node %q: %s", node, diff)
		}
		for i := range got {
			got[i].Name = "changed by the caller"
		}
		if diff := cmp.Diff(want, config.ForNode(node)); diff != "" {
			t.Errorf("node %q, after the caller changed its slice: %s", node, diff)
		}
	}
}

// A message is read in a terminal or an event, so it has a place and an end.
func FuzzParse(f *testing.F) {
	for _, dir := range []string{"testdata/invalid", "../../deploy/examples"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			f.Fatal(err)
		}
		for _, e := range entries {
			if data, err := os.ReadFile(dir + "/" + e.Name()); err == nil && strings.HasSuffix(e.Name(), ".yaml") {
				f.Add(data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := Parse(data)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || err.Error() == "" {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for _, node := range []string{"", "storage-1.example.com", "node-a"} {
			spaces := map[string]bool{}
			for _, p := range config.ForNode(node) {
				space := p.VolumeGroup + "/" + p.ThinPool
				switch {
				case spaces[space]:
					t.Fatalf("two pools use %s", space)
				case capacity.ValidatePoolName(p.Name) != nil, volumeGroupProblem(p.VolumeGroup) != "",
					p.ReserveBytes < 0, p.MaxInlineSizeBytes < 0, p.OverprovisionRatio < 1, p.OverprovisionRatio > MaxOverprovisionRatio,
					(p.Type == capacity.PoolThin) != (p.ThinPool != ""), (p.Type == capacity.PoolThin) != (p.DataWatermarkPercent >= 1):
					t.Fatalf("%+v", p)
				}
				spaces[space] = true
			}
		}
	})
}
