package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun_PrintsATableAndWritesJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sim.json")
	var out bytes.Buffer
	if err := run([]string{"-nodes", "3", "-pods", "30", "-seeds", "2", "-rate", "0", "-variants", "LocalCapacity; none", "-json", file}, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "VARIANT") || !strings.HasPrefix(lines[1], "LocalCapacity  0 ") || !strings.HasPrefix(lines[2], "none") {
		t.Errorf("table:\n%s", out.String())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Summary) != 2 || len(r.Results) != 4 || r.Results[0].Bound != 30 || r.Options.Nodes != 3 || r.Seeds != 2 {
		t.Errorf("JSON: %s", data)
	}
}

func TestRun_RefusesSenselessArguments(t *testing.T) {
	for _, args := range [][]string{
		{"-nodes", "0"}, {"-seeds", "0"}, {"-sizes", "1,big"}, {"-variants", "perfect", "-pods", "1"}, {"-nodes", "many"}, {"surplus"},
	} {
		var out bytes.Buffer
		if err := run(args, &out); err == nil {
			t.Errorf("%q was accepted:\n%s", args, out.String())
		}
	}
}
