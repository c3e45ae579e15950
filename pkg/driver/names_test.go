package driver

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// lvmName is what lvm(8) takes as a name, its reserved words apart.
var lvmName = regexp.MustCompile(`^[a-zA-Z0-9+_.][a-zA-Z0-9+_.-]*$`)

func checkVolumeName(t interface{ Fatalf(string, ...any) }, csiName, got string) {
	if !lvmName.MatchString(got) || isReservedName(got) || got == "." || got == ".." {
		t.Fatalf("volumeNameFor(%q) = %q, which LVM refuses", csiName, got)
	}
	if mappedLength(got) > maxPlainNameBytes {
		t.Fatalf("volumeNameFor(%q) = %q, which takes %d bytes of a device-mapper name", csiName, got, mappedLength(got))
	}
	ref := lvm.Ref{VolumeGroup: strings.Repeat("v", maxVolumeGroupBytes), Name: got}
	if id := volumeID(ref); len(id) > maxVolumeIDBytes {
		t.Fatalf("volume ID %q has %d bytes", id, len(id))
	}
	parsed, err := parseVolumeID(volumeID(ref))
	if err != nil || parsed != ref {
		t.Fatalf("parseVolumeID(%q) = %v, %v; want %v", volumeID(ref), parsed, err, ref)
	}
}

// Names of CSI are wider than those of LVM: intel/pmem-csi#42, openebs/lvm-localpv#190.
func TestVolumeNameFor_TakesEveryNameThatCSIAllows(t *testing.T) {
	same := strings.Repeat("n", 120)
	names := []string{
		strings.Repeat("a", 128), "snapshot-1", "snapshot", "pvmove0", "x_tdata", "lvol0_pmspare", "a_mimage_0", "pvc 1", "päc", "a/b", "-x",
		".", "..", "...", "a:b", "a@b", "a\tb", "a\nb", "--help", "%s", "$(reboot)", "`id`", "日本語", same + "1", same + "2",
		"csi_abcdefghijklmnopqrstuvwxyz234567", "pvc-6f1d7f0e-3a3a-4b1c-9a55-0a2c9c6f3d11", "A", "a", "+", "a+b_c.d-e",
	}
	seen := map[string]string{}
	for _, name := range names {
		got, err := volumeNameFor(name)
		if err != nil {
			t.Errorf("volumeNameFor(%q): %v", name, err)
			continue
		}
		checkVolumeName(t, name, got)
		if other, taken := seen[got]; taken {
			t.Errorf("volumeNameFor(%q) = %q, as for %q", name, got, other)
		}
		seen[got] = name
	}
}

// The rule is a contract with the volumes that exist: it must not change.
func TestVolumeNameFor_IsStable(t *testing.T) {
	for name, want := range map[string]string{
		"pvc-6f1d7f0e-3a3a-4b1c-9a55-0a2c9c6f3d11": "pvc-6f1d7f0e-3a3a-4b1c-9a55-0a2c9c6f3d11",
		"snapshot-1":             "csi_phdnme2exyaoos3e3nilloldto75fwcf",
		strings.Repeat("a", 128): "csi_na3m6e52yqaosecqohgwv5dqqtp2zlko",
		"päc":                    "csi_tffa6bbgqypea7eabkw4kobhmzxojb2s",
	} {
		if got, err := volumeNameFor(name); got != want || err != nil {
			t.Errorf("volumeNameFor(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestVolumeNameFor_RefusesWhatCSIBans(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("a", 129), "a\x00b", "a\x08", "a\x0bb", "a\x1f", "a\x7f", "a\u0085b", "a\xff"} {
		if got, err := volumeNameFor(name); !errors.Is(err, errInvalid) {
			t.Errorf("volumeNameFor(%q) = %q, %v; want errInvalid", name, got, err)
		}
	}
}

func TestVolumeNameFor_DifferentNamesNeverMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(
			rapid.StringN(1, 40, 128),
			rapid.StringMatching(`[a-z0-9_.+-]{1,80}`),
			rapid.StringMatching(`(snapshot|pvmove|x_tdata|csi_)[a-z0-9-]{0,40}`),
		)
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		gotA, errA := volumeNameFor(a)
		gotB, errB := volumeNameFor(b)
		if errA != nil || errB != nil {
			return
		}
		checkVolumeName(t, a, gotA)
		if (a == b) != (gotA == gotB) {
			t.Fatalf("%q -> %q, %q -> %q", a, gotA, b, gotB)
		}
	})
}

func TestParseVolumeID_RefusesWhatVolumeIDCannotMake(t *testing.T) {
	for _, id := range []string{
		"", "/", "vg", "vg/", "/lv", "vg/lv/x", "vg//lv", "vg/../lv", "../lv", "vg/..", "./lv", "vg/.", "vg/-rf", "-vg/lv", "vg/l v", "vg/lv\n", "vg/läv",
		"vg/lv;reboot", "vg/" + strings.Repeat("a", 126), "3d0f0a6e-77bb-4b4a-a43b-1a9a6a41d1c9",
	} {
		if ref, err := parseVolumeID(id); !errors.Is(err, errNotFound) {
			t.Errorf("parseVolumeID(%q) = %v, %v; want errNotFound", id, ref, err)
		}
	}
}

func FuzzVolumeNameFor(f *testing.F) {
	for _, seed := range []string{"pvc-1", "snapshot", "x_rimage_0", "a/b", "päc", "\x00", strings.Repeat("-", 64), "csi_", ".."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := volumeNameFor(name)
		if err != nil {
			if !errors.Is(err, errInvalid) {
				t.Fatalf("volumeNameFor(%q): %v", name, err)
			}
			return
		}
		checkVolumeName(t, name, got)
	})
}

func FuzzParseVolumeID(f *testing.F) {
	for _, seed := range []string{"vg/lv", "vg/lv/x", "/", "..//", "vg/-x", "vg\x00/lv"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		ref, err := parseVolumeID(id)
		switch {
		case err != nil && !errors.Is(err, errNotFound):
			t.Fatalf("parseVolumeID(%q): %v", id, err)
		case err == nil && volumeID(ref) != id:
			t.Fatalf("parseVolumeID(%q) = %v", id, ref)
		case err == nil && (!lvmName.MatchString(ref.VolumeGroup) || !lvmName.MatchString(ref.Name)):
			t.Fatalf("parseVolumeID(%q) = %v, which LVM refuses", id, ref)
		}
	})
}
