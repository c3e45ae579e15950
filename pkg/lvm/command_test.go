package lvm

import (
	"errors"
	"strings"
	"testing"
)

const extent = 4 * mib

func TestCommands_Golden(t *testing.T) {
	create := func(req CreateRequest) func() (Command, error) {
		req.Ref = Ref{"vg", "a"}
		return func() (Command, error) { return createCommand(req, extent) }
	}
	plain := func(cmd Command) func() (Command, error) { return func() (Command, error) { return cmd, nil } }
	lv := LogicalVolume{VolumeGroup: "vg", Name: "a", UUID: "U-1", SegmentType: SegLinear}
	fresh, pool := lv, lv
	fresh.UUID, pool.SegmentType = "", SegThinPool
	tests := map[string]struct {
		build func() (Command, error)
		want  string
	}{
		"linear": {
			create(CreateRequest{SegmentType: SegLinear, SizeBytes: 10 * mib, Tags: []string{"a=b", "c"}}),
			"lvcreate -y -an -ky -n a --type linear -Zn -Wn -l 3 --addtag=a=b --addtag=c vg",
		},
		"striped": {
			create(CreateRequest{SegmentType: SegStriped, SizeBytes: 10 * mib, Stripes: 2, StripeSizeBytes: 64 << 10}),
			"lvcreate -y -an -ky -n a --type striped -Zn -Wn -l 4 -i 2 -I 65536b vg",
		},
		"raid1": {
			create(CreateRequest{SegmentType: SegRAID1, SizeBytes: 10 * mib, Stripes: 3}),
			"lvcreate -y -an -ky -n a --type raid1 -Zn -Wn -l 3 -m 2 --alloc cling vg",
		},
		"thin": {
			create(CreateRequest{SegmentType: SegThin, SizeBytes: 10 * mib, ThinPool: "tp"}),
			"lvcreate -y -an -ky -n a --type thin -V 12582912b --thinpool tp vg",
		},
		"thin pool": {
			func() (Command, error) {
				return createThinPoolCommand(ThinPoolRequest{Ref: Ref{"vg", "tp"}, SizeBytes: 10 * mib, ChunkSizeBytes: 128 << 10}, extent)
			},
			"lvcreate -y --type thin-pool -Zy -n tp -l 3 -c 131072b vg",
		},
		"remove": {
			plain(removeCommand(lv)),
			`lvremove -y -S 'vg_missing_pv_count=0 && lv_name="a" && lv_uuid="U-1" && lv_role!=thickorigin' vg`,
		},
		"remove just after creation": {
			plain(removeCommand(fresh)), `lvremove -y -S 'vg_missing_pv_count=0 && lv_name="a" && lv_role!=thickorigin' vg`,
		},
		"remove a pool": {
			plain(removeCommand(pool)),
			`lvremove -y -S 'vg_missing_pv_count=0 && lv_name="a" && lv_uuid="U-1" && lv_role!=thickorigin && thin_count=0' vg`,
		},
		"tags": {
			plain(changeTagsCommand(lv, []string{"new=1", "x"}, []string{"old"}, false)),
			`lvchange -y --deltag=old --addtag=new=1 --addtag=x -S 'vg_missing_pv_count=0 && lv_name="a" && lv_uuid="U-1"' vg`,
		},
		"tags, unless there is a snapshot": {
			plain(changeTagsCommand(lv, []string{"x"}, nil, true)),
			`lvchange -y --addtag=x -S 'vg_missing_pv_count=0 && lv_name="a" && lv_uuid="U-1" && lv_role!=thickorigin' vg`,
		},
		"extend":     {plain(extendCommand(lv.Ref(), 7)), "lvextend -y -l 7 vg/a"},
		"activate":   {plain(activateCommand(lv.Ref())), "lvchange -y -ay -K vg/a"},
		"deactivate": {plain(deactivateCommand(lv.Ref())), "lvchange -y -an vg/a"},
		"rename":     {plain(renameCommand(lv.Ref(), "b")), "lvrename -y vg a b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cmd, err := test.build()
			if err != nil {
				t.Fatal(err)
			}
			line, err := shellLine(cmd)
			if got := strings.TrimSuffix(line, "\n"); err != nil || got != test.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, test.want)
			}
		})
	}
}

func TestValidCreate(t *testing.T) {
	tests := map[string]struct {
		req CreateRequest
		ok  bool
	}{
		"linear":                     {CreateRequest{SegmentType: SegLinear, SizeBytes: 1}, true},
		"striped":                    {CreateRequest{SegmentType: SegStriped, SizeBytes: 1, Stripes: 2}, true},
		"raid1":                      {CreateRequest{SegmentType: SegRAID1, SizeBytes: 1, Stripes: 2}, true},
		"thin":                       {CreateRequest{SegmentType: SegThin, SizeBytes: 1, ThinPool: "tp"}, true},
		"no type":                    {CreateRequest{SizeBytes: 1}, false},
		"a snapshot":                 {CreateRequest{SegmentType: SegSnapshot, SizeBytes: 1}, false},
		"no size":                    {CreateRequest{SegmentType: SegLinear}, false},
		"linear with stripes":        {CreateRequest{SegmentType: SegLinear, SizeBytes: 1, Stripes: 2}, false},
		"linear with stripe size":    {CreateRequest{SegmentType: SegLinear, SizeBytes: 1, StripeSizeBytes: 4096}, false},
		"linear with pool":           {CreateRequest{SegmentType: SegLinear, SizeBytes: 1, ThinPool: "tp"}, false},
		"one stripe":                 {CreateRequest{SegmentType: SegStriped, SizeBytes: 1, Stripes: 1}, false},
		"too many stripes":           {CreateRequest{SegmentType: SegStriped, SizeBytes: 1, Stripes: 129}, false},
		"a stripe size too small":    {CreateRequest{SegmentType: SegStriped, SizeBytes: 1, Stripes: 2, StripeSizeBytes: 2048}, false},
		"an odd stripe size":         {CreateRequest{SegmentType: SegStriped, SizeBytes: 1, Stripes: 2, StripeSizeBytes: 12288}, false},
		"a negative stripe size":     {CreateRequest{SegmentType: SegStriped, SizeBytes: 1, Stripes: 2, StripeSizeBytes: -4096}, false},
		"one leg":                    {CreateRequest{SegmentType: SegRAID1, SizeBytes: 1, Stripes: 1}, false},
		"thin without pool":          {CreateRequest{SegmentType: SegThin, SizeBytes: 1}, false},
		"thin with stripes":          {CreateRequest{SegmentType: SegThin, SizeBytes: 1, ThinPool: "tp", Stripes: 2}, false},
		"thin in a pool like a path": {CreateRequest{SegmentType: SegThin, SizeBytes: 1, ThinPool: "a/b"}, false},
		"a bad tag":                  {CreateRequest{SegmentType: SegLinear, SizeBytes: 1, Tags: []string{"a b"}}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.req.Ref = Ref{"vg", "a"}
			err := validCreate(test.req)
			if test.ok != (err == nil) || err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v, want ok %v", err, test.ok)
			}
		})
	}
}
