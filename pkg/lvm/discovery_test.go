package lvm

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChooseGroups(t *testing.T) {
	two := []pvsRow{
		{"/dev/sda", "vgA", "U1"}, {"/dev/sdb", "vgA", "U1"}, {"/dev/sdc", "vgA", "U2"}, {"/dev/sdd", "vgB", "U3"}, {"/dev/sde", "", ""},
	}
	tests := map[string]struct {
		rows        []pvsRow
		wanted      []VolumeGroupSelector
		learned     map[string]string
		wantDevices []string
		wantProblem error
	}{
		"only one":                  {rows: two, wanted: []VolumeGroupSelector{{Name: "vgB"}}, wantDevices: []string{"/dev/sdd"}},
		"several disks":             {rows: two[:2], wanted: []VolumeGroupSelector{{Name: "vgA"}}, wantDevices: []string{"/dev/sda", "/dev/sdb"}},
		"two of a name":             {rows: two, wanted: []VolumeGroupSelector{{Name: "vgA"}}, wantProblem: ErrVolumeGroupAmbiguous},
		"two of a name, one pinned": {rows: two, wanted: []VolumeGroupSelector{{"vgA", "U2"}}, wantDevices: []string{"/dev/sdc"}},
		"two of a name, one was there first": {
			rows: two, wanted: []VolumeGroupSelector{{Name: "vgA"}}, learned: map[string]string{"vgA": "U1"},
			wantDevices: []string{"/dev/sda", "/dev/sdb"},
		},
		"the pin counts more than what was first": {
			rows: two, wanted: []VolumeGroupSelector{{"vgA", "U2"}}, learned: map[string]string{"vgA": "U1"},
			wantDevices: []string{"/dev/sdc"},
		},
		"not there":               {rows: two, wanted: []VolumeGroupSelector{{Name: "vgZ"}}, wantProblem: ErrVolumeGroupMissing},
		"not there with that pin": {rows: two, wanted: []VolumeGroupSelector{{"vgB", "U1"}}, wantProblem: ErrVolumeGroupMissing},
		"another one took its place": {
			rows: two, wanted: []VolumeGroupSelector{{Name: "vgB"}}, learned: map[string]string{"vgB": "U9"}, wantProblem: ErrVolumeGroupMissing,
		},
		"a disk of it is missing": {
			rows:   []pvsRow{{"/dev/sda", "vgA", "U1"}, {"[unknown]", "vgA", "U1"}},
			wanted: []VolumeGroupSelector{{Name: "vgA"}}, wantDevices: []string{"/dev/sda"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := chooseGroups(test.rows, test.wanted, test.learned)
			if diff := cmp.Diff(test.wantDevices, got.devices); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
			if problem := got.problems[test.wanted[0].Name]; !errors.Is(problem, test.wantProblem) {
				t.Errorf("problem %v, want %v", problem, test.wantProblem)
			}
		})
	}
}

func TestParsePhysicalVolumes_Unreadable(t *testing.T) {
	for _, report := range []string{"", "null", "{}", `[{"pv":[`} {
		if rows, err := parsePhysicalVolumes(json.RawMessage(report)); !errors.Is(err, ErrReport) {
			t.Errorf("%q: %v, %v", report, rows, err)
		}
	}
}

// Two groups of one name and no pin: nothing is read from them and nothing done to them.
func TestClient_AmbiguousGroupIsLeftAlone(t *testing.T) {
	b := newBed(t, nil)
	b.discovery.on("pvs", disksOf(pvsRow{"/dev/ubdb", "vgA", uuidA}, pvsRow{"/dev/clone", "vgA", "U2"}))
	b.on("fullreport", reply{Report: recorded(t, "none")})
	// A client that has not seen either before.
	fresh, err := NewClient(b.client.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fresh.Close(); err != nil {
			t.Error(err)
		}
	})
	state, err := fresh.State(t.Context())
	if err != nil || !errors.Is(state.Problems["vgA"], ErrVolumeGroupAmbiguous) || len(state.VolumeGroups) != 0 {
		t.Errorf("state %+v, %v", state, err)
	}
	if _, err := fresh.Create(t.Context(), linear("new", mib)); !errors.Is(err, ErrVolumeGroupAmbiguous) {
		t.Errorf("Create: %v", err)
	}
	if err := fresh.Remove(t.Context(), Ref{"vgA", "lin"}); !errors.Is(err, ErrVolumeGroupAmbiguous) {
		t.Errorf("Remove: %v", err)
	}
}
