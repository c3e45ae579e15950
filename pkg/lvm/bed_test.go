package lvm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// bed is a client whose lvm is the fake of fake_lvm_test.go.
type bed struct {
	fakeDir   // what the shell is asked
	discovery fakeDir
	client    *Client
	mu        sync.Mutex
	stats     []CommandStats
}

const (
	uuidA = "XOf0kW-RKB6-wZkg-gVgs-3I0a-04Ng-fhHiUh" // vgA in testdata/fullreport/mixed.json
	uuidB = "xOxEew-fjmJ-hC1d-nreL-ecPE-qKm5-1Qu7N2"
)

func disksOf(rows ...pvsRow) reply {
	content, err := json.Marshal([]map[string][]pvsRow{{"pv": rows}})
	if err != nil {
		panic(err) // a test's own constant
	}
	return reply{Report: content}
}

func newBed(t *testing.T, edit func(*Options)) *bed {
	t.Helper()
	b := &bed{fakeDir: newFakeDir(t)}
	b.discovery = fakeDir{t: t, dir: filepath.Join(b.dir, "discovery")}
	if err := os.Mkdir(b.discovery.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b.on("fullreport", reply{Report: recorded(t, "mixed")})
	b.discovery.on("pvs", disksOf(pvsRow{"/dev/ubdb", "vgA", uuidA}, pvsRow{"/dev/ubdc", "vgA", uuidA}, pvsRow{"/dev/ubdd", "vgB", uuidB},
		pvsRow{"/dev/other", "vgC", "C"}, pvsRow{"/dev/none", "", ""}))
	opts := Options{
		VolumeGroups: []VolumeGroupSelector{{Name: "vgA"}}, RunDir: b.dir, LVMPath: b.environment().lvmPath,
		RefreshDelay: time.Hour, RefreshInterval: time.Hour,
		Observe: func(s CommandStats) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.stats = append(b.stats, s)
		},
	}
	if edit != nil {
		edit(&opts)
	}
	var err error
	if b.client, err = NewClient(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.client.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// commands are those that were run since the last call.
func (b *bed) commands() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, s := range b.stats {
		out = append(out, s.Command)
	}
	b.stats = nil
	return out
}

func (b *bed) state(t *testing.T) *State {
	t.Helper()
	s, err := b.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func linear(name string, sizeBytes int64, tags ...string) CreateRequest {
	return CreateRequest{Ref: Ref{"vgA", name}, SegmentType: SegLinear, SizeBytes: sizeBytes, Tags: tags}
}

// said is what LVM logs about an object that it changed.
func said() reply { return reply{Log: []LogEntry{{Type: "print", Message: "changed."}}} }

func refusal(words string) reply {
	return reply{ExitCode: 5, Log: []LogEntry{{Type: "error", ObjectType: "vg", Message: words}}}
}
