package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// follow feeds lines to a follower and returns what it counted and showed.
func follow(t *testing.T, lines ...string) (result, string) {
	t.Helper()
	var out bytes.Buffer
	f := newFollower(&out, "the.log")
	f.read(strings.NewReader(strings.Join(lines, "\n")+"\n"), time.Hour)
	return f.result("unit"), out.String()
}

func TestFollow_Counts(t *testing.T) {
	const passA = `{"Action":"run","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"p","Test":"TestA"}`
	tests := []struct {
		name  string
		lines []string
		want  result
		shown string
	}{
		{
			name:  "one test passes",
			lines: []string{passA, `{"Action":"pass","Package":"p","Elapsed":2}`},
			want:  result{Label: "unit", Passed: 1, Packages: []packageResult{{"p", 2}}},
			shown: "ok   p",
		},
		{
			name: "a parent counts by its subtests",
			lines: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/x"}`,
				`{"Action":"run","Package":"p","Test":"TestA/y"}`,
				`{"Action":"output","Package":"p","Test":"TestA/y","Output":"    a_test.go:7: got 1\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
				`{"Action":"fail","Package":"p","Test":"TestA/y"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"fail","Package":"p","Elapsed":1}`,
			},
			want:  result{Label: "unit", Passed: 1, Failed: 1, Packages: []packageResult{{"p", 1}}},
			shown: "a_test.go:7: got 1",
		},
		{
			name: "a parent that fails by itself counts",
			lines: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/x"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"fail","Package":"p","Elapsed":1}`,
			},
			want:  result{Label: "unit", Passed: 1, Failed: 1, Packages: []packageResult{{"p", 1}}},
			shown: "FAIL p",
		},
		{
			name: "a skip keeps its reason",
			lines: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: needs two disks\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}`,
				`{"Action":"skip","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p","Elapsed":1}`,
			},
			want: result{Label: "unit", Skips: []skip{{"p", "TestA", "needs two disks"}}, Packages: []packageResult{{"p", 1}}},
		},
		{
			name: "a package that does not build fails",
			lines: []string{
				`{"ImportPath":"p","Action":"build-output","Output":"p/a.go:3:1: syntax error\n"}`,
				`{"ImportPath":"p","Action":"build-fail"}`,
				`{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}`,
			},
			want:  result{Label: "unit", Failed: 1, Packages: []packageResult{{"p", 0}}},
			shown: "syntax error",
		},
		{
			name:  "a test that never ended fails with its package",
			lines: []string{`{"Action":"run","Package":"p","Test":"TestA"}`, `{"Action":"fail","Package":"p","Elapsed":3}`},
			want:  result{Label: "unit", Failed: 1, Packages: []packageResult{{"p", 3}}},
		},
		{
			name:  "a package without tests is no skip",
			lines: []string{`{"Action":"skip","Package":"p","Elapsed":0}`},
			want:  result{Label: "unit", Packages: []packageResult{{"p", 0}}},
		},
		{
			name:  "other lines are passed on",
			lines: []string{"go: downloading example.com/m v1.0.0", passA, `{"Action":"pass","Package":"p","Elapsed":2}`},
			want:  result{Label: "unit", Passed: 1, Packages: []packageResult{{"p", 2}}},
			shown: "go: downloading",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, shown := follow(t, tt.lines...)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if !strings.Contains(shown, tt.shown) {
				t.Errorf("shown:\n%s\nwant it to contain %q", shown, tt.shown)
			}
		})
	}
}

func TestFollow_StreamThatBreaksOffIsAFailure(t *testing.T) {
	got, _ := follow(t, `{"Action":"run","Package":"p","Test":"TestA"}`)
	if got.Failed != 1 || got.Passed != 0 {
		t.Errorf("counted %s, want 1 failed", got.words())
	}
}

func TestVerdict(t *testing.T) {
	tests := []struct {
		name string
		in   result
		want string // part of the error; empty for none
	}{
		{"all passed", result{Passed: 3}, ""},
		{"skip with a reason", result{Passed: 3, Skips: []skip{{"p", "TestA", "no disk"}}}, ""},
		{"skip without a reason", result{Passed: 3, Skips: []skip{{"p", "TestA", ""}}}, "TestA was skipped without a reason"},
		{"a failure", result{Passed: 3, Failed: 2}, "2 failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.in.verdict()
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("verdict %v, want %q", err, tt.want)
			}
		})
	}
}

func TestTotal_LastLineIsTheCount(t *testing.T) {
	dir := t.TempDir()
	for _, r := range []result{
		{Label: "unit", Passed: 5, Skips: []skip{{modulePath + "pkg/lvm", "TestA", "no disk"}}},
		{Label: "demo", Passed: 1},
	} {
		if err := r.save(dir); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"total", "-results", dir}, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if got, want := lines[len(lines)-1], "6 passed, 0 failed, 1 skipped"; got != want {
		t.Errorf("last line %q, want %q", got, want)
	}
	if want := "skipped: pkg/lvm TestA: no disk"; !strings.Contains(out.String(), want) {
		t.Errorf("output:\n%s\nwant it to contain %q", out.String(), want)
	}
}

func TestTotal_NothingRanIsAFailure(t *testing.T) {
	if err := run(t.Context(), []string{"total", "-results", t.TempDir()}, &bytes.Buffer{}); err == nil {
		t.Error("an empty run passed")
	}
}

func TestStep_CountsOne(t *testing.T) {
	tests := []struct {
		command string
		want    string
		fails   bool
	}{
		{"true", "1 passed, 0 failed, 0 skipped", false},
		{"false", "0 passed, 1 failed, 0 skipped", true},
	}
	for _, tt := range tests {
		t.Run(tt.command, func(t *testing.T) {
			dir := t.TempDir()
			err := run(context.Background(), []string{"step", "-results", dir, "-label", "s", "--", tt.command}, &bytes.Buffer{})
			if (err != nil) != tt.fails {
				t.Errorf("error %v, want one: %v", err, tt.fails)
			}
			parts, err := load(dir)
			if err != nil || len(parts) != 1 || parts[0].words() != tt.want {
				t.Errorf("results %v (%v), want %s", parts, err, tt.want)
			}
		})
	}
}
