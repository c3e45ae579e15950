package roundtrip

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/csi-local/csi-local/test/vm"
)

func TestMain(m *testing.M) {
	vm.Main(m, vm.Options{Disks: []vm.Disk{{SizeBytes: 64 << 20}, {SizeBytes: 64 << 20}}})
}

func TestPasses(t *testing.T) {
	if double(2) != 4 {
		t.Error("two times two is wrong")
	}
	disks := strings.Fields(os.Getenv(vm.EnvDisks))
	if len(disks) != 2 || !vm.Inside() {
		t.Errorf("disks %q, inside %v", disks, vm.Inside())
	}
	for _, disk := range disks {
		if info, err := os.Stat(disk); err != nil || info.Mode()&os.ModeDevice == 0 {
			t.Errorf("%s is not a device: %v", disk, err)
		}
	}
	if _, err := os.Stat("roundtrip_test.go"); err != nil {
		t.Errorf("not in the package's folder: %v", err)
	}
	t.Log("ran in", os.Getenv(vm.EnvBackend))
}

func TestFails(t *testing.T) { t.Error("fails on purpose") }

func TestHangs(t *testing.T) { time.Sleep(time.Hour) }
