package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/options.md instead of comparing it")

const optionsDoc = "../../docs/options.md"

// parse reads flags laid over those that every call needs.
func parse(t *testing.T, args ...string) (*nodeOptions, error) {
	t.Helper()
	t.Setenv("NODE_NAME", "")
	opts, err := parseNodeFlags(append([]string{"--node-name=n1"}, args...), io.Discard)
	if err != nil {
		return nil, err
	}
	return opts, opts.validate()
}

func TestNodeOptions_Defaults(t *testing.T) {
	opts, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := opts.socketEndpoint(), "unix:///var/lib/kubelet/plugins/kubernetes.io.csi.local/csi.sock"; got != want {
		t.Errorf("endpoint %s, want %s", got, want)
	}
	if opts, err = parse(t, "-driver-name=my.driver", "-kubelet-dir=/k"); err != nil {
		t.Fatal(err)
	}
	if got, want := opts.socketEndpoint(), "unix:///k/plugins/my.driver/csi.sock"; got != want {
		t.Errorf("endpoint %s, want %s", got, want)
	}
}

func TestNodeOptions_NodeNameFromEnvironment(t *testing.T) {
	t.Setenv("NODE_NAME", "from-env")
	opts, err := parseNodeFlags(nil, io.Discard)
	if err != nil || opts.nodeName != "from-env" || opts.validate() != nil {
		t.Errorf("node name %q, %v", opts.nodeName, err)
	}
}

func TestNodeOptions_LogFlagsTakeOneDashOrTwo(t *testing.T) {
	t.Cleanup(func() { // klog's flags belong to the process
		if _, err := parse(t, "-v=0", "-vmodule="); err != nil {
			t.Error(err)
		}
	})
	for _, args := range [][]string{{"-v=4"}, {"--v=4"}, {"-v", "4"}, {"--vmodule=wipe=5", "--v", "2"}} {
		if _, err := parse(t, args...); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestNodeOptions_EachProblemIsNamed(t *testing.T) {
	for _, tt := range []struct {
		args []string
		says []string // all of them, empty for a good command line
	}{
		{nil, nil},
		{[]string{"--node-name="}, []string{"--node-name"}},
		{[]string{"--driver-name=Bad_Name"}, []string{"--driver-name", "lower-case"}},
		{[]string{"--driver-name=" + strings.Repeat("a", 64)}, []string{"--driver-name", "63"}},
		{[]string{"--driver-name=a..b"}, []string{"--driver-name"}},
		{[]string{"--endpoint=tcp://:1"}, []string{"--endpoint", "unix:///"}},
		{[]string{"--endpoint=unix:///" + strings.Repeat("a", 120)}, []string{"--endpoint", "107"}},
		{[]string{"--kubelet-dir=kubelet", "--endpoint=unix:///s"}, []string{"--kubelet-dir", "absolute"}},
		{[]string{"--pools-file=pools.yaml"}, []string{"--pools-file"}},
		{[]string{"--lvm-run-dir="}, []string{"--lvm-run-dir"}},
		{[]string{"--lvm-lock-dir=locks"}, []string{"--lvm-lock-dir"}},
		{[]string{"--metadata-backup-dir=backup"}, []string{"--metadata-backup-dir"}},
		{[]string{"--metadata-backup-dir=/backup"}, nil},
		{[]string{"--extra-paths=/a,b"}, []string{"--extra-paths", `"b"`}},
		{[]string{"--extra-paths=/"}, []string{"--extra-paths"}},
		{[]string{"--extra-paths=/a,/b"}, nil},
		{[]string{"--metrics-address=9808"}, []string{"--metrics-address", ":port"}},
		{[]string{"--metrics-address=:9808"}, nil},
		{[]string{"--max-volumes=0"}, []string{"--max-volumes", "unlimited"}},
		{[]string{"--max-volumes=3000000000"}, []string{"--max-volumes"}},
		{[]string{"--max-concurrent-wipes=0"}, []string{"--max-concurrent-wipes", "at least 1"}},
		{[]string{"--lvm-refresh-interval=10ms"}, []string{"--lvm-refresh-interval", "1s"}},
		{[]string{"--publish-step-percent=0"}, []string{"--publish-", "StepPercent"}},
		{[]string{"--publish-interval=1ms"}, []string{"--publish-", "Interval"}},
		{[]string{"--publish-selector=a=b=c"}, []string{"--publish-selector", "a=b=c"}},
		{[]string{"--publish-selector=csi-local/publish=true,zone notin (b)"}, nil},
		{[]string{"--publish-validity=2m"}, []string{"--publish-validity", "--lvm-refresh-interval"}},
		{[]string{"--publish-validity=2m", "--lvm-refresh-interval=30s"}, nil},
		{[]string{"--orphan-policy=shred"}, []string{"--orphan-policy", "delete, keep or ignore"}},
		{[]string{"--orphan-policy=ignore"}, nil},
		{[]string{"--orphan-grace=0"}, []string{"--orphan-", "Grace"}},
		{[]string{"--admin-socket=admin.sock"}, []string{"--admin-socket", "unix:///"}},
		{
			[]string{"--node-name=", "--driver-name=X", "--max-volumes=-1"},
			[]string{"--node-name", "--driver-name", "--max-volumes"},
		},
	} {
		_, err := parse(t, tt.args...)
		if (err == nil) != (tt.says == nil) {
			t.Errorf("%v: %v", tt.args, err)
			continue
		}
		for _, part := range tt.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v: %q does not say %q", tt.args, err, part)
			}
		}
	}
}

// renderOptions is the reference of the flags, made from the flags.
func renderOptions(t *testing.T) string {
	t.Helper()
	t.Setenv("NODE_NAME", "")
	own := flag.NewFlagSet("", flag.ContinueOnError)
	(&nodeOptions{}).addFlags(own)
	var b strings.Builder
	b.WriteString("# Options of csi-local node\n\n" +
		"This file is made from the source: `go test ./cmd/csi-local -run Documentation -update`; a test compares it.\n" +
		"Flags take one dash or two. Everything that is wrong with a command line is reported at once.\n")
	table := func(title string, wanted func(name string) bool) {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | default | meaning |\n|---|---|---|\n", title)
		serviceFlagSet("node", (&nodeOptions{}).addFlags).VisitAll(func(f *flag.Flag) {
			if !wanted(f.Name) {
				return
			}
			value := ""
			if f.DefValue != "" {
				value = "`" + f.DefValue + "`"
			}
			fmt.Fprintf(&b, "| `--%s` | %s | %s |\n", f.Name, value, strings.NewReplacer("|", `\|`, "<", `\<`).Replace(f.Usage))
		})
	}
	publish := flag.NewFlagSet("", flag.ContinueOnError)
	(&publishOptions{}).addFlags(publish)
	orphans := flag.NewFlagSet("", flag.ContinueOnError)
	(&orphanOptions{}).addFlags(orphans)
	table("Its own", func(name string) bool {
		return own.Lookup(name) != nil && publish.Lookup(name) == nil && orphans.Lookup(name) == nil
	})
	table("What it publishes (see [reporter.md](reporter.md))", func(name string) bool { return publish.Lookup(name) != nil })
	table("Orphans (see [orphans.md](orphans.md))", func(name string) bool { return orphans.Lookup(name) != nil })
	table("Logs (klog)", func(name string) bool { return own.Lookup(name) == nil })
	return b.String()
}

func TestDocumentation_NamesEveryFlag(t *testing.T) {
	want := renderOptions(t)
	if *update {
		if err := os.WriteFile(optionsDoc, []byte(want), 0o644); err != nil { //nolint:gosec // documentation is for everybody
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(optionsDoc)
	if err != nil {
		t.Fatalf("%v; go test ./cmd/csi-local -run Documentation -update makes it", err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not what the flags say; go test ./cmd/csi-local -run Documentation -update mends it (-want +got)\n%s", optionsDoc, diff)
	}
}
