package imports

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each rule must be able to fail, and must let the neighbouring right thing pass.
func TestCheckArrows(t *testing.T) {
	own := func(path string) string { return Module + "/" + path }
	tests := []struct {
		name string
		pkg  Package
		want string // end of the finding's arrow; empty for none
	}{
		{"lvm knows the driver", Package{ImportPath: own("pkg/lvm"), Imports: []string{own("pkg/driver")}}, own("pkg/driver")},
		{"lvm's test knows capacity", Package{ImportPath: own("pkg/lvm/lvmfake"), XTestImports: []string{own("pkg/capacity")}}, own("pkg/capacity")},
		{"lvm knows its own parts", Package{ImportPath: own("pkg/lvm/lvmtest"), Imports: []string{own("pkg/lvm"), "os/exec"}}, ""},
		{"blockdev knows lvm", Package{ImportPath: own("pkg/blockdev"), Imports: []string{own("pkg/lvm")}}, own("pkg/lvm")},
		{"capacity knows lvm by way of another", Package{ImportPath: own("pkg/capacity"), Deps: []string{own("pkg/lvm")}}, own("pkg/lvm")},
		{"capacity knows the driver", Package{ImportPath: own("pkg/capacity"), Imports: []string{own("pkg/driver")}}, own("pkg/driver")},
		{"the contract knows the API server", Package{ImportPath: own("pkg/capacity"), Deps: []string{"k8s.io/client-go/rest"}}, "k8s.io/client-go/rest"},
		{"the contract knows the pools file", Package{ImportPath: own("pkg/capacity"), Imports: []string{own("pkg/poolconfig")}}, own("pkg/poolconfig")},
		{"the reporter knows the contract and the API server", Package{ImportPath: own("pkg/capacity/reporter"), Imports: []string{own("pkg/capacity"), "k8s.io/client-go/kubernetes"}}, ""},
		{"the driver knows the reporter", Package{ImportPath: own("pkg/driver"), Imports: []string{own("pkg/capacity/reporter")}}, own("pkg/capacity/reporter")},
		{"a name that only begins alike", Package{ImportPath: own("pkg/capacityplanner"), Imports: []string{own("pkg/lvm")}}, ""},
		{"the pools file knows the driver", Package{ImportPath: own("pkg/poolconfig"), Deps: []string{own("pkg/driver")}}, own("pkg/driver")},
		{"the scheduler plugin knows lvm", Package{ImportPath: own("pkg/schedplugin"), Deps: []string{own("pkg/lvm")}}, own("pkg/lvm")},
		{"the scheduler plugin knows capacity", Package{ImportPath: own("pkg/schedplugin"), Imports: []string{own("pkg/capacity"), "k8s.io/client-go/rest"}}, ""},
		{"the controller knows the driver", Package{ImportPath: own("pkg/controller"), Imports: []string{own("pkg/driver")}}, own("pkg/driver")},
		{"a library knows a command", Package{ImportPath: own("pkg/driver"), Imports: []string{own("cmd/csi-local")}}, own("cmd/csi-local")},
		{"a library's test knows the testbed", Package{ImportPath: own("pkg/driver"), TestImports: []string{own("test/vm")}}, own("test/vm")},
		{"a fake ships", Package{ImportPath: own("pkg/driver"), Imports: []string{own("pkg/lvm/lvmfake")}}, own("pkg/lvm/lvmfake")},
		{"a test tool ships", Package{ImportPath: own("cmd/csi-local"), Imports: []string{"testing"}}, "testing"},
		{"a fake in a test", Package{ImportPath: own("pkg/driver"), TestImports: []string{own("pkg/lvm/lvmfake"), "testing"}}, ""},
		{"a fake in a fake", Package{ImportPath: own("pkg/driver/drivertest"), Imports: []string{own("pkg/lvm/lvmfake"), "testing"}}, ""},
		{"grpc in capacity", Package{ImportPath: own("pkg/capacity"), Imports: []string{"google.golang.org/grpc/codes"}}, "google.golang.org/grpc/codes"},
		{"protobuf in the controller", Package{ImportPath: own("pkg/controller"), Imports: []string{"google.golang.org/protobuf/proto"}}, "google.golang.org/protobuf/proto"},
		{"CSI in the pools file", Package{ImportPath: own("pkg/poolconfig"), Imports: []string{"github.com/container-storage-interface/spec/lib/go/csi"}}, "github.com/container-storage-interface/spec/lib/go/csi"},
		{"grpc in the driver and beside it", Package{ImportPath: own("pkg/driver"), Imports: []string{"google.golang.org/grpc"}}, ""},
		{"grpc under client-go", Package{ImportPath: own("pkg/capacity"), Deps: []string{"google.golang.org/protobuf/proto"}}, ""},
		{"a process started by the driver", Package{ImportPath: own("pkg/driver"), Imports: []string{"os/exec"}}, "os/exec"},
		{"a process started by the tests", Package{ImportPath: own("test/vm"), Imports: []string{"os/exec"}}, ""},
		{"the API server in the driver", Package{ImportPath: own("pkg/driver"), Imports: []string{"k8s.io/client-go/kubernetes"}}, "k8s.io/client-go/kubernetes"},
		{"orphans know the driver", Package{ImportPath: own("pkg/orphans/apiserver"), Deps: []string{own("pkg/driver")}}, own("pkg/driver")},
		{"orphans know the client", Package{ImportPath: own("pkg/orphans"), Deps: []string{"k8s.io/client-go/rest"}}, "k8s.io/client-go/rest"},
		{"orphans' part that asks the API server", Package{ImportPath: own("pkg/orphans/apiserver"), Imports: []string{own("pkg/orphans"), "k8s.io/client-go/kubernetes"}}, ""},
		{"the API server in the wiring", Package{ImportPath: own("cmd/csi-local"), Imports: []string{"k8s.io/client-go/kubernetes"}}, ""},
		{"Kubernetes itself", Package{ImportPath: own("pkg/schedplugin"), Deps: []string{"k8s.io/kubernetes/pkg/apis/core"}}, "k8s.io/kubernetes/pkg/apis/core"},
		{"somebody else's package", Package{ImportPath: "k8s.io/mount-utils", Imports: []string{"os/exec"}}, ""},
	}
	used := map[string]bool{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := CheckArrows(Arrows(), []Package{tt.pkg})
			if tt.want == "" {
				if len(got) > 0 {
					t.Fatalf("findings %q, want none", got)
				}
				return
			}
			if len(got) == 0 || !strings.Contains(got[0], " → "+tt.want+": ") {
				t.Fatalf("findings %q, want one of %s", got, tt.want)
			}
			for _, finding := range got {
				_, why, _ := strings.Cut(finding, ": ")
				used[why] = true
			}
		})
	}
	for _, arrow := range Arrows() {
		if !used[arrow.Why] {
			t.Errorf("no case shows that this rule can fail: %s", arrow.Why)
		}
	}
}

func TestCheckSource(t *testing.T) {
	long := strings.Repeat("\t_ = 1\n", maxFuncLines)
	tests := []struct {
		name   string
		file   string
		source string
		want   []string
	}{
		{"clean", "pkg/a/a.go", "package a\n\nfunc f() {}\n", nil},
		{
			"long file", "pkg/a/a.go", "package a\n" + strings.Repeat("\n", maxFileLines),
			[]string{"pkg/a/a.go:1: 401 lines; at most 400: a file has one subject (rule file)"},
		},
		{
			"long function", "pkg/a/a.go", "package a\n\nfunc f() {\n" + long + "}\n",
			[]string{"pkg/a/a.go:3: f has 62 lines; at most 60 (rule func)"},
		},
		{"long table in a test", "pkg/a/a_test.go", "package a\n\nfunc f() {\n" + long + "}\n", nil},
		{
			"init", "pkg/a/a.go", "package a\n\nfunc init() {}\n",
			[]string{"pkg/a/a.go:3: importing a package must have no effect (rule init)"},
		},
		{
			"context.TODO under another name", "pkg/a/a_test.go", "package a\n\nimport c \"context\"\n\nvar _ = c.TODO()\n",
			[]string{"pkg/a/a_test.go:5: context.TODO: pass the caller's context on (rule todo)"},
		},
		{
			"sleep", "test/a/a.go", "package a\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n",
			[]string{"test/a/a.go:5: time.Sleep: wait for the thing itself; tests of clocks use testing/synctest (rule sleep)"},
		},
		{
			"sleep on a fake clock", "pkg/a/a_test.go",
			"package a\n\nimport (\n\t\"testing/synctest\"\n\t\"time\"\n)\n\nfunc f() { synctest.Wait(); time.Sleep(1) }\n", nil,
		},
		{
			"command without a context", "pkg/a/a.go", "package a\n\nimport \"os/exec\"\n\nvar _ = exec.Command(\"lvm\")\n",
			[]string{"pkg/a/a.go:5: exec.Command: use CommandContext, so that a caller can give up (rule exec)"},
		},
		{"command with a context", "pkg/a/a.go", "package a\n\nimport \"os/exec\"\n\nvar _ = exec.CommandContext\n\nfunc f() { exec.CommandContext(nil, \"lvm\") }\n", nil},
		{
			"allowed above", "pkg/a/a.go",
			"package a\n\nimport \"os/exec\"\n\n//allow:exec it outlives its request\nvar _ = exec.Command(\"lvm\")\n", nil,
		},
		{
			"allowed without a reason", "pkg/a/a.go",
			"package a\n\nimport \"os/exec\"\n\n//allow:exec\nvar _ = exec.Command(\"lvm\")\n",
			[]string{"pkg/a/a.go:5: allow:exec needs a reason"},
		},
		{
			"allowance that covers another rule", "pkg/a/a.go", "package a\n\nimport \"os/exec\"\n\n//allow:sleep because\nvar _ = exec.Command(\"lvm\")\n",
			[]string{
				"pkg/a/a.go:5: allow:sleep allows nothing",
				"pkg/a/a.go:6: exec.Command: use CommandContext, so that a caller can give up (rule exec)",
			},
		},
		{
			"exit in a library", "pkg/a/a.go", "package a\n\nimport \"os\"\n\nfunc f() { os.Exit(1) }\n",
			[]string{"pkg/a/a.go:5: os.Exit: return an error; main decides (rule exit)"},
		},
		{"exit in a command", "cmd/a/main.go", "package main\n\nimport \"os\"\n\nfunc main() { os.Exit(1) }\n", nil},
		{
			"klog.Fatalf", "cmd/a/main.go", "package main\n\nimport \"k8s.io/klog/v2\"\n\nfunc main() { klog.Fatalf(\"\") }\n",
			[]string{"cmd/a/main.go:5: klog.Fatalf: return an error; main decides (rule exit)"},
		},
		{
			"print in a library", "pkg/a/a.go", "package a\n\nimport \"fmt\"\n\nfunc f() { fmt.Println() }\n",
			[]string{"pkg/a/a.go:5: fmt.Println: log, or write to the writer you were given (rule print)"},
		},
		{
			"skip without a reason", "pkg/a/a_test.go", "package a\n\nfunc f(t T) { t.Skip(); t.SkipNow(); t.Skip(\"no disk\") }\n",
			[]string{
				"pkg/a/a_test.go:3: a skipped test says why (rule skip)",
				"pkg/a/a_test.go:3: a skipped test says why (rule skip)",
			},
		},
		{"generated", "pkg/a/a.go", "// Code generated by x. DO NOT EDIT.\n\npackage a\n\nfunc init() {}\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := CheckSource(tt.file, []byte(tt.source))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckModule(t *testing.T) {
	var bad GoMod
	bad.Module.Path = "example.com/other"
	bad.Require = []struct{ Path, Version string }{
		{"k8s.io/kubernetes", "v1.37.2"}, {"example.com/old", "v3.0.0+incompatible"}, {"k8s.io/api", "v0.37.2"},
	}
	bad.Replace = make([]struct {
		Old, New struct{ Path, Version string }
	}, 1)
	bad.Replace[0].Old.Path = "k8s.io/api"
	if got := CheckModule(bad); len(got) != 4 {
		t.Errorf("findings %q, want 4", got)
	}
	var good GoMod
	good.Module.Path = Module
	if got := CheckModule(good); len(got) != 0 {
		t.Errorf("findings %q, want none", got)
	}
}
