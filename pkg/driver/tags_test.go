package driver

import (
	"errors"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// lvmTag is what lvm(8) takes as a tag.
var lvmTag = regexp.MustCompile(`^[a-zA-Z0-9+_.][a-zA-Z0-9+_./=!:&#-]*$`)

func TestEncodeTag(t *testing.T) {
	for _, tt := range []struct{ value, want string }{
		{"pvc-1", "csi-local/name=pvc-1"},
		{"a b", "csi-local/name=a#20b"},
		{"a#20b", "csi-local/name=a#2320b"},
		{"ä,@", "csi-local/name=#C3#A4#2C#40"},
		{"a=b/c:d!e&f", "csi-local/name=a=b/c:d!e&f"},
	} {
		if got := encodeTag(tagName, tt.value); got != tt.want {
			t.Errorf("encodeTag(%q) = %q, want %q", tt.value, got, tt.want)
		}
	}
}

func TestDecodeTag_RefusesWhatEncodeTagCannotMake(t *testing.T) {
	for _, tag := range []string{"csi-local/", "csi-local/name", "csi-local/=x", "csi-local/name=#", "csi-local/name=#4", "csi-local/name=#g0", "csi-local/name=#4g"} {
		if key, value, ok, err := decodeTag(tag); !errors.Is(err, errTags) || ok {
			t.Errorf("decodeTag(%q) = %q, %q, %v, %v; want errTags", tag, key, value, ok, err)
		}
	}
	for _, tag := range []string{"", "prod", "csi-local", "csi-localx/name=a", "other/name=a"} {
		if _, _, ok, err := decodeTag(tag); ok || err != nil {
			t.Errorf("decodeTag(%q) says ours=%v, %v; want a foreign tag", tag, ok, err)
		}
	}
}

func anyVolume(t *rapid.T) volume {
	text := func(name string, from int) string { return rapid.StringN(from, 20, 128).Draw(t, name) }
	return volume{
		LogicalVolume: lvm.LogicalVolume{VolumeGroup: "vg", Name: "lv"},
		CSIName:       text("name", 1), Pool: text("pool", 1), Layout: text("layout", 0), ClassHash: text("class", 0),
		Wipe: text("wipe", 0), FSType: text("fs", 0), EphemeralPodUID: text("pod", 0),
		State:  rapid.SampledFrom([]volumeState{stateNew, stateUsed, stateDeleting}).Draw(t, "state"),
		Seen:   rapid.Bool().Draw(t, "seen"),
		Orphan: rapid.SampledFrom([]time.Time{{}, time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}).Draw(t, "orphan"),
	}
}

func TestTags_ComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		driverName := rapid.StringMatching(`[a-z][a-z0-9.-]{0,40}`).Draw(t, "driver")
		want := anyVolume(t)
		tags := encodeTags(driverName, want)
		for _, tag := range tags {
			if !lvmTag.MatchString(tag) || len(tag) > 1024 {
				t.Fatalf("LVM refuses the tag %q", tag)
			}
		}
		lv := want.LogicalVolume
		lv.Tags = append(slices.Clone(tags), "somebody", "else/name=x")
		got, ours, err := decodeVolume(driverName, lv)
		if err != nil || !ours {
			t.Fatalf("decodeVolume(%q): ours=%v, %v", lv.Tags, ours, err)
		}
		got.LogicalVolume, want.LogicalVolume = lvm.LogicalVolume{}, lvm.LogicalVolume{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
		if _, ours, err := decodeVolume(driverName+"x", lv); ours || err != nil {
			t.Fatalf("another driver takes it for its own: %v, %v", ours, err)
		}
	})
}

func TestDecodeVolume_NeverGuesses(t *testing.T) {
	owner, name, pool := "csi-local/driver=d", "csi-local/name=n", "csi-local/pool=p"
	for _, tt := range []struct {
		title string
		tags  []string
		ours  bool
		bad   bool
	}{
		{"no tags", nil, false, false},
		{"tags of an administrator", []string{"prod"}, false, false},
		{"our tags without the owner", []string{name, pool, "csi-local/state=new"}, false, false},
		{"another driver's", []string{"csi-local/driver=e", name, pool, "csi-local/state=new"}, false, false},
		{"complete", []string{owner, name, pool, "csi-local/state=used"}, true, false},
		{"a key of a later version", []string{owner, name, pool, "csi-local/state=used", "csi-local/later=1"}, true, false},
		{"no name", []string{owner, pool, "csi-local/state=used"}, true, true},
		{"no pool", []string{owner, name, "csi-local/state=used"}, true, true},
		{"no state", []string{owner, name, pool}, true, true},
		{"unknown state", []string{owner, name, pool, "csi-local/state=later"}, true, true},
		{"two states", []string{owner, name, pool, "csi-local/state=new", "csi-local/state=used"}, true, true},
		{"a broken tag", []string{owner, name, pool, "csi-local/state=new", "csi-local/fs"}, true, true},
		{"an orphan since some day", []string{owner, name, pool, "csi-local/state=new", "csi-local/orphan=yesterday"}, true, true},
	} {
		t.Run(tt.title, func(t *testing.T) {
			_, ours, err := decodeVolume("d", lvm.LogicalVolume{VolumeGroup: "vg", Name: "lv", Tags: tt.tags})
			if ours != tt.ours || errors.Is(err, errTags) != tt.bad {
				t.Errorf("ours=%v, %v; want ours=%v, bad=%v", ours, err, tt.ours, tt.bad)
			}
		})
	}
}

func FuzzDecodeTag(f *testing.F) {
	for _, seed := range []string{"csi-local/name=pvc-1", "csi-local/name=a#20b", "csi-local/fs=", "csi-local/=", "x", "csi-local/name=#ZZ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, tag string) {
		key, value, ok, err := decodeTag(tag)
		if err != nil || !ok {
			return
		}
		again, back, ok, err := decodeTag(encodeTag(key, value))
		if again != key || back != value || !ok || err != nil {
			t.Fatalf("%q decodes to %q=%q, and that encoded to %q=%q, %v, %v", tag, key, value, again, back, ok, err)
		}
	})
}
