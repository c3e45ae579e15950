package driver

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
)

// The rows that callers act upon: csi-provisioner asks another node only after
// ResourceExhausted, and takes every code but Canceled, DeadlineExceeded,
// Unavailable and Aborted for "nothing was created"; csi-resizer and kubelet
// take OutOfRange for "ask for less".
func TestToStatus(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("somewhere: %w", &lvm.Error{Kind: err, Op: "lvcreate"}) }
	for _, tt := range []struct {
		method string
		err    error
		want   codes.Code
	}{
		{"CreateVolume", nil, codes.OK},
		{"CreateVolume", wrapped(lvm.ErrNoSpace), codes.ResourceExhausted},
		{"CreateVolume", wrapped(lvm.ErrThinPoolFull), codes.ResourceExhausted},
		{"NodeExpandVolume", wrapped(lvm.ErrNoSpace), codes.OutOfRange},
		{"NodeExpandVolume", wrapped(lvm.ErrThinPoolFull), codes.OutOfRange},
		{"NodeExpandVolume", poolFull.errorf("p", "n", int64(1), int64(2)), codes.OutOfRange},
		{"NodePublishVolume", wrapped(lvm.ErrNoSpace), codes.ResourceExhausted},
		{"CreateVolume", poolUnknown.errorf("p", "n", "hint"), codes.ResourceExhausted},
		{"CreateVolume", wrapped(lvm.ErrVolumeGroupAmbiguous), codes.ResourceExhausted},
		{"CreateVolume", wrapped(lvm.ErrVolumeGroupMissing), codes.ResourceExhausted},
		{"NodeStageVolume", wrapped(lvm.ErrVolumeGroupMissing), codes.Unavailable},
		{"NodeExpandVolume", wrapped(lvm.ErrVolumeGroupMissing), codes.Unavailable},
		{"CreateVolume", wrapped(lvm.ErrReport), codes.Unavailable},
		{"CreateVolume", wrapped(lvm.ErrUnavailable), codes.Unavailable},
		{"CreateVolume", wrapped(lvm.ErrTimeout), codes.DeadlineExceeded},
		{"CreateVolume", &lvm.Error{Kind: lvm.ErrTimeout, Cause: context.Canceled}, codes.Canceled},
		{"CreateVolume", fmt.Errorf("goes on: %w", context.DeadlineExceeded), codes.DeadlineExceeded},
		{"DeleteVolume", wrapped(lvm.ErrInUse), codes.FailedPrecondition},
		{"NodeExpandVolume", wrapped(lvm.ErrInUse), codes.Internal},
		{"NodeExpandVolume", expandOfOrigin.errorf("v", "s"), codes.Internal},
		{"CreateVolume", fmt.Errorf("x: %w", &capacity.ParameterError{Key: "pol"}), codes.InvalidArgument},
		{"CreateVolume", errors.Join(&capacity.ParameterError{Key: "pol"}, &capacity.ParameterError{Key: "x"}), codes.InvalidArgument},
		{"CreateVolume", &capacity.SizeError{Kind: capacity.ErrOutOfRange}, codes.OutOfRange},
		{"CreateVolume", fmt.Errorf("y: %w", errBusy), codes.Aborted},
		{"CreateVolume", errStopping, codes.Unavailable},
		{"CreateVolume", errPanic, codes.Internal},
		{"CreateVolume", errors.New("never heard of"), codes.Internal},
		{"ControllerModifyVolume", status.Error(codes.Unimplemented, "no"), codes.Unimplemented},
	} {
		got := toStatus(tt.method, tt.err)
		if status.Code(got) != tt.want {
			t.Errorf("%s, %v: %v, want %v", tt.method, tt.err, status.Code(got), tt.want)
		}
		if tt.err != nil && !strings.Contains(got.Error(), strings.TrimPrefix(tt.err.Error(), "rpc error: ")) {
			t.Errorf("%s: the status %q lost the message %q", tt.method, got, tt.err)
		}
	}
}

// kubelet gives an expansion up, without a word, after FailedPrecondition.
func TestCodeOf_ExpansionIsNeverGivenUp(t *testing.T) {
	for _, row := range codeTable() {
		if got := codeOf(methodExpand, row.kind); got == codes.FailedPrecondition {
			t.Errorf("%v: %v", row.kind, got)
		}
	}
}

// sentinels finds the package-level error variables of a package in its source,
// so that one that is added later and has no code is found out here.
func sentinels(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for _, file := range sourceFiles(t, dir) {
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(strings.ToLower(name.Name), "err") {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

func sourceFiles(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no sources in %s: %v", dir, err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

func TestCodeTable_HasEverySentinel(t *testing.T) {
	inTable := map[string]bool{}
	for _, file := range sourceFiles(t, ".") {
		ast.Inspect(file, func(n ast.Node) bool {
			fn, ok := n.(*ast.FuncDecl)
			if !ok || fn.Name.Name != "codeTable" {
				return true
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				kv, ok := n.(*ast.KeyValueExpr)
				if !ok || kv.Key.(*ast.Ident).Name != "kind" {
					return true
				}
				switch v := kv.Value.(type) {
				case *ast.Ident:
					inTable["driver."+v.Name] = true
				case *ast.SelectorExpr:
					inTable[v.X.(*ast.Ident).Name+"."+v.Sel.Name] = true
				}
				return true
			})
			return false
		})
	}
	if len(inTable) < 10 {
		t.Fatalf("found only %d rows in codeTable: the search is broken", len(inTable))
	}
	total := 0
	for pkg, dir := range map[string]string{"driver": ".", "lvm": "../lvm", "capacity": "../capacity", "poolconfig": "../poolconfig", "blockdev": "../blockdev"} {
		for _, name := range sentinels(t, dir) {
			if pkg != "driver" && !ast.IsExported(name) {
				continue
			}
			total++
			if !inTable[pkg+"."+name] {
				t.Errorf("%s.%s has no gRPC code: add it to codeTable", pkg, name)
			}
		}
	}
	t.Logf("%d sentinels, all with a code", total)
}

func TestCodeTable_HasNoRowTwice(t *testing.T) {
	seen := map[error]bool{}
	for _, row := range codeTable() {
		if seen[row.kind] {
			t.Errorf("two rows for %q", row.kind)
		}
		seen[row.kind] = true
		if row.code == codes.OK {
			t.Errorf("%q has no code", row.kind)
		}
	}
}
