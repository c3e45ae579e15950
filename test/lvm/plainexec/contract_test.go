package plainexec

import (
	"os"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
	"github.com/csi-local/csi-local/test/vm"
)

func TestMain(m *testing.M) {
	disks := make([]vm.Disk, lvmtest.MinDisks)
	for i := range disks {
		disks[i].SizeBytes = 512 << 20
	}
	vm.Main(m, vm.Options{Disks: disks})
}

func TestContract(t *testing.T) {
	lvmtest.Run(t, func(t *testing.T) lvmtest.Machine {
		return lvmtest.NewReal(t, strings.Fields(os.Getenv(vm.EnvDisks)), lvm.Options{PlainExec: true})
	})
}
