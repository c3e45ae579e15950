package sanity

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	suite "github.com/csi-local/csi-local/sanity"
	"github.com/csi-local/csi-local/test/vm"
)

// envDriver tells the tests inside the machine where the driver is.
const envDriver = "SANITY_DRIVER"

func TestMain(m *testing.M) {
	o := vm.Options{Disks: []vm.Disk{{SizeBytes: 8 << 30}, {SizeBytes: 8 << 30}}, MemoryMiB: 2048}
	if vm.Inside() {
		vm.Main(m, o)
	}
	// Compiling is for the host: the machine has one processor.
	dir, err := os.MkdirTemp("", "sanity-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	driver := filepath.Join(dir, "csi-local")
	build := exec.Command("go", "build", "-o", driver, "github.com/csi-local/csi-local/cmd/csi-local") //allow:exec TestMain has no context
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, output)
		os.Exit(1)
	}
	o.Env = []string{envDriver + "=" + driver}
	vm.Main(m, o)
}

// TestSanity_RealLVM asks everything about every pool type and layout, as file systems
// and as raw block volumes.
func TestSanity_RealLVM(t *testing.T) {
	bed, err := SetUp(t.Context(), os.Getenv(envDriver), t.TempDir(), strings.Fields(os.Getenv(vm.EnvDisks)))
	if err != nil {
		t.Fatal(err)
	}
	suite.Run(t, bed.Variants()...)
	if err := bed.TearDown(t.Context()); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		log, err := os.ReadFile(bed.LogFile())
		t.Logf("the driver's log (%v):\n%s", err, log)
	}
}
