package poolconfig

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-local/csi-local/internal/doctest"
	"github.com/csi-local/csi-local/pkg/capacity"
)

const poolsDoc = "../../docs/pools.md"

func TestDocs_EveryFieldAndNoOther(t *testing.T) {
	doc := doctest.Read(t, poolsDoc)
	fields := doctest.Rows(t, doc, "## Fields of a pool")
	var got []string
	for name := range fields {
		got = append(got, name)
	}
	want := NodePoolFields()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	top := doctest.Rows(t, doc, "## Fields of the file")
	if len(top) != 2 || top[fieldPools] == nil || top[fieldNodes] == nil {
		t.Errorf("fields of the file: %v", top)
	}
	policies := doctest.Rows(t, doc, "### Wipe policies")
	for _, w := range capacity.WipePolicies() {
		if policies[string(w)] == nil || len(policies) != len(capacity.WipePolicies()) {
			t.Errorf("wipe policy %s: %v", w, policies)
		}
	}
	for _, name := range thinOnlyFields() {
		if fields[name][0] != "thin" {
			t.Errorf("%s is for thin pools only", name)
		}
	}
}

func TestDocs_DefaultsAndBounds(t *testing.T) {
	fields := doctest.Rows(t, doctest.Read(t, poolsDoc), "## Fields of a pool")
	const columnDefault, columnAllowed = 1, 2
	for name, want := range map[string]string{
		fieldOverprovision:     fmt.Sprint(DefaultOverprovisionRatio),
		fieldDataWatermark:     fmt.Sprint(DefaultDataWatermarkPercent),
		fieldMetadataWatermark: fmt.Sprint(DefaultMetadataWatermarkPercent),
		fieldFilesystem:        string(DefaultFilesystem),
		fieldWipe:              string(DefaultWipe),
		fieldReserve:           "0",
		fieldMaxInline:         "0",
	} {
		if got := fields[name][columnDefault]; got != "`"+want+"`" {
			t.Errorf("%s: default %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{
		fieldVolumeGroup:   fmt.Sprintf("at most %d bytes", maxEscapedVolumeGroupBytes),
		fieldThinPool:      fmt.Sprintf("at most %d bytes", maxEscapedThinPoolBytes),
		fieldOverprovision: fmt.Sprintf("1 to %d,", MaxOverprovisionRatio),
		fieldWipe:          "`zero`, `discard`, `unsafe-none`",
		fieldFilesystem:    "`ext4`, `xfs`, `btrfs`",
		fieldType:          "`thick`, `thin`",
	} {
		if got := fields[name][columnAllowed]; !strings.Contains(got, want) {
			t.Errorf("%s: allowed %q, want %q", name, got, want)
		}
	}
}

func TestDocs_ExamplesParse(t *testing.T) {
	blocks := doctest.YAML(doctest.Read(t, poolsDoc))
	if len(blocks) < 2 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, block := range blocks {
		if _, err := Parse([]byte(block)); err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
	}
}

func TestExamplePoolsFile(t *testing.T) {
	config, err := Load("../../deploy/examples/pools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := func(node string) []string {
		var out []string
		for _, p := range config.ForNode(node) {
			out = append(out, p.Name+"="+p.VolumeGroup)
		}
		return out
	}
	if diff := cmp.Diff([]string{"pool-hdd=vg-hdd", "pool-ssd=vg-ssd", "pool-thin=vg-ssd-thin"}, names("any")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"pool-archive=vg-archive", "pool-ssd=vg-nvme", "pool-thin=vg-ssd-thin"}, names("storage-1.example.com")); diff != "" {
		t.Error(diff)
	}
}
