package lvm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fakeSys makes a sysfs with device-mapper devices: number -> name and UUID.
func fakeSys(t *testing.T, devices map[string][2]string) string {
	t.Helper()
	dir := t.TempDir()
	for number, facts := range devices {
		dm := filepath.Join(dir, "dev", "block", number, "dm")
		if err := os.MkdirAll(dm, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{"name": facts[0], "uuid": facts[1]} {
			if err := os.WriteFile(filepath.Join(dm, file), []byte(content+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "dev", "block", "8:0"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDevices_Find(t *testing.T) {
	ref := Ref{"vg-a", "lv"}
	sys := fakeSys(t, map[string][2]string{
		"253:1": {"vg--a-lv", "LVM-AAbbCC11dd22"}, "253:2": {"vg--a-other", "LVM-AAbbCC33dd44"}, "253:3": {"vg--a-lv", "LVM-XXXXXX11dd22"},
		"253:4": {"vg--a-lv", "LVM-AAbbCC11dd22-pool"},
	})
	tests := map[string]struct {
		number  deviceNumber
		statErr error
		vg, lv  string
		want    string // part of the error; empty: found
	}{
		"right":                  {number: deviceNumber{253, 1}, vg: "AA-bb-CC", lv: "11-dd-22"},
		"layered":                {number: deviceNumber{253, 4}, vg: "AA-bb-CC", lv: "11-dd-22"},
		"right, UUID unknown":    {number: deviceNumber{253, 1}, vg: "AA-bb-CC"},
		"no node":                {statErr: os.ErrNotExist, want: "not exist"},
		"node of another volume": {number: deviceNumber{253, 2}, vg: "AA-bb-CC", lv: "11-dd-22", want: "vg--a-other"},
		"same name elsewhere":    {number: deviceNumber{253, 3}, vg: "AA-bb-CC", lv: "11-dd-22", want: "UUID"},
		"left-over node":         {number: deviceNumber{253, 9}, want: "no device-mapper device"},
		"a disk":                 {number: deviceNumber{8, 0}, want: "no device-mapper device"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := devices{sysDir: sys, stat: func(string) (deviceNumber, error) { return test.number, test.statErr }}
			got, err := d.find("/dev/vg-a/lv", ref, test.vg, test.lv)
			switch {
			case test.want == "" && (err != nil || got != test.number):
				t.Errorf("got %v, %v", got, err)
			case test.want != "" && (!errors.Is(err, errNoNode) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestClient_Activate_WaitsForTheNode(t *testing.T) {
	sys := fakeSys(t, map[string][2]string{"253:7": {"vgA-lin", "LVM-" + squeeze(uuidA) + "x"}})
	tests := map[string]struct {
		appearsAfter time.Duration
		want         error
	}{
		"there at once":      {0, nil},
		"late":               {time.Second, nil},
		"never":              {time.Hour, ErrUnavailable},
		"later than we wait": {6 * time.Second, ErrUnavailable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(o *Options) { o.SysDir = sys }, func(t *testing.T, c *Client, r *fakeRunner) {
				vg, _ := c.state.Load().VolumeGroup("vgA")
				lin, _ := vg.LogicalVolume("lin")
				start := time.Now()
				c.devices.stat = func(string) (deviceNumber, error) {
					if time.Since(start) < test.appearsAfter {
						return deviceNumber{-1, -1}, os.ErrNotExist
					}
					return deviceNumber{253, 7}, nil
				}
				// The recorded UUID is as long as any; give the device its own.
				uuid := filepath.Join(sys, "dev", "block", "253:7", "dm", "uuid")
				if err := os.WriteFile(uuid, []byte("LVM-"+squeeze(vg.UUID)+squeeze(lin.UUID)), 0o644); err != nil {
					t.Fatal(err)
				}
				lv, err := c.Activate(t.Context(), lin.Ref())
				if !errors.Is(err, test.want) {
					t.Fatalf("got %v, want %v", err, test.want)
				}
				if waited := time.Since(start); waited > 6*time.Second {
					t.Errorf("waited %v", waited)
				}
				if err != nil {
					return
				}
				if !lv.Active || lv.Major != 253 || lv.Minor != 7 {
					t.Errorf("got %+v", lv)
				}
				r.commands()
				if again, err := c.Activate(t.Context(), lin.Ref()); err != nil || again.Minor != 7 {
					t.Errorf("second time %+v, %v", again, err)
				}
				if got := r.commands(); len(got) != 0 {
					t.Errorf("an active volume cost %q", got)
				}
				synctest.Wait()
			})
		})
	}
}
