package imports

import (
	"fmt"
	"sort"
	"strings"
)

// Module is the path of the main module.
const Module = "github.com/csi-local/csi-local"

// Package is what "go list -deps -json" says of one package, as far as it matters.
type Package struct {
	ImportPath string
	// Imports are the direct imports of the package without its tests.
	Imports []string
	// TestImports and XTestImports are those of its tests, inside and outside.
	TestImports, XTestImports []string
	// Deps are all packages that it needs, directly or not, tests left out.
	Deps []string
}

// scope says which imports of a package a rule looks at.
type scope int

const (
	direct     scope = iota // what the package itself names
	transitive              // all that it needs, too
	withTests               // direct, and what its tests name
)

// Arrow is a rule about who may know whom. Paths are relative to Module where they
// begin with "./"; a path stands for itself and everything below it.
type Arrow struct {
	// From are the packages the rule is about, but for those in Except.
	From, Except []string
	// To are the packages they must not import, but for those in But.
	To, But []string
	Scope   scope
	// Why is printed with a finding.
	Why string
}

// Arrows are the rules of this repository.
func Arrows() []Arrow {
	return append(layerArrows(), shippingArrows()...)
}

// layerArrows say which of our packages is above which.
func layerArrows() []Arrow {
	const own = "./"
	return []Arrow{
		{
			From: []string{"./pkg/lvm"}, To: []string{own}, But: []string{"./pkg/lvm"}, Scope: withTests,
			Why: "the LVM layer knows LVM and nothing of ours",
		},
		{
			From: []string{"./pkg/blockdev"}, To: []string{own}, But: []string{"./pkg/blockdev"}, Scope: withTests,
			Why: "block devices are below everything of ours",
		},
		{
			From: []string{"./pkg/capacity"}, To: []string{"./pkg/lvm", "./pkg/driver", "./pkg/blockdev"}, Scope: transitive,
			Why: "the scheduler uses capacity, and has no disks",
		},
		{
			From: []string{"./pkg/capacity"}, Except: []string{"./pkg/capacity/reporter"},
			To: []string{"k8s.io/client-go", "./pkg"}, But: []string{"./pkg/capacity"}, Scope: transitive,
			Why: "the contract is pure: plain values and arithmetic",
		},
		{
			From: []string{"./pkg/capacity", "./pkg/schedplugin", "./pkg/driver"}, Except: []string{"./pkg/capacity/reporter"},
			To: []string{"./pkg/capacity/reporter"}, Scope: withTests,
			Why: "the reporter uses the contract, and only a command puts it to use",
		},
		{
			From: []string{"./pkg/orphans"}, To: []string{"./pkg/lvm", "./pkg/driver", "./pkg/blockdev"}, Scope: transitive,
			Why: "what is an orphan is decided without disks",
		},
		{
			From: []string{"./pkg/orphans", "./pkg/driver"}, Except: []string{"./pkg/orphans/apiserver"},
			To: []string{"k8s.io/client-go"}, Scope: transitive,
			Why: "the node and its orphans are independent of how the API server is asked",
		},
		{
			From: []string{"./pkg/poolconfig"}, To: []string{"./pkg/driver", "./pkg/blockdev"}, Scope: transitive,
			Why: "the pools file says what is wanted, not how it is served",
		},
		{
			From: []string{"./pkg/schedplugin", "./pkg/controller", "./pkg/inspect", "./pkg/doctor", "./pkg/status"}, To: []string{"./pkg/lvm", "./pkg/driver", "./pkg/blockdev"}, Scope: transitive,
			Why: "cluster components have no disks",
		},
	}
}

// shippingArrows say what of the tests and of others' code may be in what ships.
func shippingArrows() []Arrow {
	const own = "./"
	tests := []string{"./test", "./sanity", "./hack", "./bench"}
	fakes := []string{"./pkg/lvm/lvmfake", "./pkg/lvm/lvmtest", "./pkg/driver/drivertest", "./pkg/inspect/inspecttest", "./internal/doctest"}
	return []Arrow{
		{
			From: []string{"./pkg"}, To: append([]string{"./cmd"}, tests...), Scope: withTests,
			Why: "libraries are below the commands and the tests of the whole",
		},
		{
			From: []string{own}, Except: append(fakes, tests...), To: append(fakes, "testing", "pgregory.net/rapid", "github.com/google/go-cmp"), Scope: direct,
			Why: "fakes and test tools do not ship",
		},
		{
			From: []string{own}, Except: append([]string{"./pkg/driver", "./cmd"}, tests...),
			To: []string{
				"google.golang.org/grpc", "google.golang.org/protobuf",
				"github.com/container-storage-interface", "k8s.io/kubelet/pkg/apis",
			}, Scope: direct,
			Why: "protobuf types stay in the driver",
		},
		{
			From: []string{own}, Except: append([]string{"./pkg/lvm"}, tests...), To: []string{"os/exec"}, Scope: direct,
			Why: "processes are started by the LVM layer and by mount-utils only",
		},
		{
			From: []string{own}, Except: []string{"./pkg/capacity/reporter", "./pkg/orphans/apiserver", "./pkg/schedplugin", "./pkg/controller", "./pkg/inspect", "./cmd", "./test", "./bench"},
			To: []string{"k8s.io/client-go"}, Scope: withTests,
			Why: "the node does its work without asking the API server",
		},
		{
			From: []string{own}, To: []string{"k8s.io/kubernetes"}, Scope: transitive,
			Why: "it needs every staging module pinned; only a nested module may have it",
		},
	}
}

// CheckArrows returns one line for each import that a rule forbids, sorted.
func CheckArrows(arrows []Arrow, packages []Package) []string {
	var findings []string
	for _, p := range packages {
		for _, a := range arrows {
			if !under(p.ImportPath, a.From) || under(p.ImportPath, a.Except) {
				continue
			}
			for _, imported := range a.imports(p) {
				if under(imported, a.To) && !under(imported, a.But) {
					findings = append(findings, fmt.Sprintf("%s → %s: %s", p.ImportPath, imported, a.Why))
				}
			}
		}
	}
	sort.Strings(findings)
	return findings
}

// imports lists what the rule looks at, each once.
func (a Arrow) imports(p Package) []string {
	lists := [][]string{p.Imports}
	switch a.Scope {
	case transitive:
		lists = append(lists, p.Deps)
	case withTests:
		lists = append(lists, p.TestImports, p.XTestImports)
	}
	seen := map[string]bool{p.ImportPath: true}
	var all []string
	for _, list := range lists {
		for _, path := range list {
			if !seen[path] {
				seen[path] = true
				all = append(all, path)
			}
		}
	}
	return all
}

func under(path string, roots []string) bool {
	for _, root := range roots {
		if rest, ok := strings.CutPrefix(root, "./"); ok {
			root = strings.TrimSuffix(Module+"/"+rest, "/")
		}
		if path == root || strings.HasPrefix(path, root+"/") {
			return true
		}
	}
	return false
}
