package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

func TestRepository_Arrows(t *testing.T) {
	packages := listPackages(t)
	if len(packages) < 5 {
		t.Fatalf("go list knows %d packages of ours; is the test looking at the right folder?", len(packages))
	}
	for _, finding := range CheckArrows(Arrows(), packages) {
		t.Error(finding)
	}
}

func TestRepository_Source(t *testing.T) {
	files := goFiles(t)
	if len(files) < 5 {
		t.Fatalf("found %d Go files; is the test looking at the right folder?", len(files))
	}
	for _, name := range files {
		source, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted since the walk
		}
		if err != nil {
			t.Fatal(err)
		}
		findings, err := CheckSource(filepath.ToSlash(name), source)
		if err != nil {
			t.Error(err)
		}
		for _, finding := range findings {
			t.Error(finding)
		}
	}
}

func TestRepository_Module(t *testing.T) {
	var mod GoMod
	if err := json.Unmarshal(goCommand(t, "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	for _, finding := range CheckModule(mod) {
		t.Error(finding)
	}
}

// listPackages returns this module's packages.
func listPackages(t *testing.T) []Package {
	t.Helper()
	out := goCommand(t, "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	var packages []Package
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p Package
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func goCommand(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
}

// goFiles lists the repository's Go files, those of nested modules included.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata") {
			return filepath.SkipDir
		}
		if entry.Type().IsRegular() && strings.HasSuffix(name, ".go") {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			files = append(files, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
