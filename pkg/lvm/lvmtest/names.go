package lvmtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// GoodNames are names that LVM takes for a volume of the volume group vgA.
func GoodNames() []string {
	return []string{
		"a", "A1", "0", "_x", "+", "a+b_c.d-e", "x--y", "pvc-0d9f6c2e-7f5b-4a3e-9c51-1f1b0c7a9e55", ".hidden", "...",
		"csi_abcdefghijklmnopqrstuvwxyz234567", "my_snapshot", "rimage", "mirror_", strings.Repeat("n", 63), strings.Repeat("n", 100),
	}
}

// BadNames are names that LVM refuses for a volume.
func BadNames() []string {
	return []string{
		"", ".", "..", "-x", "a b", "a/b", "a:b", "a@b", "päc", "a\tb", "a\nb", "a\x00b", `a"b`, "a'b", "a$b", "a`b", "a;b",
		"snapshot", "snapshot-1", "snapshot0", "pvmove", "pvmove0", "x_mimage", "x_mlog_0", "x_rimage_0", "x_rmeta_0",
		"x_tdata", "x_tmeta", "x_cdata", "x_cmeta", "x_corig", "x_pmspare", "x_vdata", "x_vorigin", "lvol0_pmspare",
		strings.Repeat("n", 128),
	}
}

// BadTags are tags that LVM refuses.
func BadTags() []string {
	return []string{"", "a b", "a@b", "a,b", "päc", "a\nb", `a"b`, "a'b", "a(b", "a*b"}
}

// unwantedTags are tags that LVM takes and a client does not: one like an option,
// one that is longer than LVM's manual allows.
func unwantedTags() []string { return []string{"-x", longTag() + "a"} }

func createNames(t *testing.T, b *bed) {
	for _, name := range GoodNames() {
		lv, err := b.client.Create(t.Context(), b.linear(name, 1))
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if lv.Name != name {
			t.Errorf("%q became %q", name, lv.Name)
		}
		if err := b.client.Remove(t.Context(), b.ref(name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// wantInvalid checks that bad requests are refused, and without LVM's help.
func wantInvalid(t *testing.T, b *bed) {
	created := func(change func(*lvm.CreateRequest)) func() error {
		return func() error {
			req := b.linear("x", 4*mib)
			change(&req)
			_, err := b.client.Create(t.Context(), req)
			return err
		}
	}
	cases := map[string]func() error{
		"negative size":     created(func(r *lvm.CreateRequest) { r.SizeBytes = -1 }),
		"no size":           created(func(r *lvm.CreateRequest) { r.SizeBytes = 0 }),
		"too large for LVM": created(func(r *lvm.CreateRequest) { r.SizeBytes = 1<<63 - 1 }),
		"unknown type":      created(func(r *lvm.CreateRequest) { r.SegmentType = "raid7" }),
		"a snapshot":        created(func(r *lvm.CreateRequest) { r.SegmentType = lvm.SegSnapshot }),
		"linear stripes":    created(func(r *lvm.CreateRequest) { r.Stripes = 2 }),
		"one stripe":        created(func(r *lvm.CreateRequest) { r.SegmentType, r.Stripes = lvm.SegStriped, 1 }),
		"129 stripes":       created(func(r *lvm.CreateRequest) { r.SegmentType, r.Stripes = lvm.SegStriped, 129 }),
		"one leg":           created(func(r *lvm.CreateRequest) { r.SegmentType, r.Stripes = lvm.SegRAID1, 1 }),
		"11 legs":           created(func(r *lvm.CreateRequest) { r.SegmentType, r.Stripes = lvm.SegRAID1, 11 }),
		"stripe size of 5":  created(func(r *lvm.CreateRequest) { r.SegmentType, r.Stripes, r.StripeSizeBytes = lvm.SegStriped, 2, 5 }),
		"linear in a pool":  created(func(r *lvm.CreateRequest) { r.ThinPool = "tp" }),
		"thin without pool": created(func(r *lvm.CreateRequest) { r.SegmentType = lvm.SegThin }),
		"tag twice":         created(func(r *lvm.CreateRequest) { r.Tags = []string{"a", "a"} }),
		"no tags to change": func() error { return b.client.ChangeTags(t.Context(), b.ref("x"), nil, nil) },
		"tag in both": func() error {
			return b.client.ChangeTags(t.Context(), b.ref("x"), []string{"a"}, []string{"a"})
		},
		"pool without size": func() error {
			_, err := b.client.CreateThinPool(t.Context(), lvm.ThinPoolRequest{Ref: b.ref("x")})
			return err
		},
		"chunk of 5 bytes": func() error {
			_, err := b.client.CreateThinPool(t.Context(), lvm.ThinPoolRequest{Ref: b.ref("x"), SizeBytes: mib, ChunkSizeBytes: 5})
			return err
		},
		"bad volume group": created(func(r *lvm.CreateRequest) { r.VolumeGroup = "a b" }),
	}
	for _, tag := range append(BadTags(), unwantedTags()...) {
		cases[fmt.Sprintf("tag %.20q", tag)] = created(func(r *lvm.CreateRequest) { r.Tags = []string{tag} })
		cases[fmt.Sprintf("changed tag %.20q", tag)] = func() error {
			return b.client.ChangeTags(t.Context(), b.ref("x"), []string{tag}, nil)
		}
	}
	for _, name := range BadNames() {
		cases[fmt.Sprintf("name %.20q", name)] = created(func(r *lvm.CreateRequest) { r.Name = name })
		cases[fmt.Sprintf("new name %.20q", name)] = func() error { return b.client.Rename(t.Context(), b.ref("x"), name) }
	}
	for what, call := range cases {
		if err := call(); !errors.Is(err, lvm.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if vg := b.refreshed(t); len(vg.LogicalVolumes) != 0 {
		t.Errorf("refused requests made %v", vg.LogicalVolumes)
	}
}
