package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLVMName(t *testing.T) {
	for path, want := range map[string]string{
		"/dev/mapper/vg--ssd-pvc--database": "vg-ssd/pvc-database",
		"/dev/mapper/vg-lv":                 "vg/lv",
		"/dev/mapper/a----b-c":              "a--b/c",
		"/dev/loop0":                        "/dev/loop0",
	} {
		if got := lvmName(path); got != want {
			t.Errorf("lvmName(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestLifeTags_KeepsOnlyWhatTellsTheLife(t *testing.T) {
	got := lifeTags("csi-local/state=used,csi-local/name=pvc-1,other/state=x,csi-local/fs=ext4")
	if want := "fs=ext4 state=used"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestChangesSince(t *testing.T) {
	before := picture{volumes: map[string]string{"a": "a 1", "b": "b 1", "d": "d 1"}}
	after := picture{
		volumes: map[string]string{"a": "a 1", "b": "b 2", "c": "c 1"},
		mounts:  map[string]string{"/x": "x"},
	}
	want := []change{
		{"lvs", removed, "d 1"}, {"lvs", changed, "b 2"}, {"lvs", added, "c 1"},
		{"mount", added, "x"},
	}
	if diff := cmp.Diff(want, after.changesSince(before), cmp.AllowUnexported(change{})); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}
