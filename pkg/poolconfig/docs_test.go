package poolconfig

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-local/csi-local/pkg/capacity"
)

const poolsDoc = "../../docs/pools.md"

func readDoc(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// rows returns the table under a heading, by the name in its first column.
func rows(t *testing.T, doc, heading string) map[string][]string {
	t.Helper()
	_, section, found := strings.Cut(doc, "\n"+heading+"\n")
	if !found {
		t.Fatalf("no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	out := map[string][]string{}
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| `") {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			out[strings.Trim(cells[0], "`")] = cells[1:]
		}
	}
	return out
}

func TestDocs_EveryFieldAndNoOther(t *testing.T) {
	doc := readDoc(t, poolsDoc)
	fields := rows(t, doc, "## Fields of a pool")
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
	top := rows(t, doc, "## Fields of the file")
	if len(top) != 2 || top[fieldPools] == nil || top[fieldNodes] == nil {
		t.Errorf("fields of the file: %v", top)
	}
	policies := rows(t, doc, "### Wipe policies")
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
	fields := rows(t, readDoc(t, poolsDoc), "## Fields of a pool")
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

// yamlBlocks returns the YAML examples of a document.
func yamlBlocks(doc string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(doc, -1) {
		out = append(out, m[1])
	}
	return out
}

func TestDocs_ExamplesParse(t *testing.T) {
	blocks := yamlBlocks(readDoc(t, poolsDoc))
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
