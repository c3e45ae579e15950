package sanity

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	suite "github.com/csi-local/csi-local/sanity"
	"github.com/csi-local/csi-local/test/nodeproc"
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
	driver, err := nodeproc.Build(context.Background(), "sanity")
	if err != nil {
		fmt.Fprintln(os.Stderr, "sanity:", err)
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
